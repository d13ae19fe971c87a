"""Whether an error says that a device has no memory left."""

from __future__ import annotations

from collections.abc import Iterator

import torch

_TEXTS = ("CUDA out of memory", "CUDA error: out of memory", "CUDA_ERROR_OUT_OF_MEMORY", "CUBLAS_STATUS_ALLOC_FAILED")
"""How torch, the runtime, the driver and a library say it."""


def lacks_device_memory(error: BaseException) -> bool:
    """Whether this, or what it came from, says that a device has no memory left."""
    return any(
        isinstance(each, torch.OutOfMemoryError) or any(text in str(each) for text in _TEXTS) for each in chain(error)
    )


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it came from."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
