"""Answers of the CUDA driver, through cuda-bindings."""

from __future__ import annotations

from typing import Any


def done(result: tuple[Any, ...], where: str = "") -> Any:
    """The value of a driver call. Raises RuntimeError with the driver's word for what went wrong, and where."""
    error, *values = result
    if int(error):
        raise RuntimeError(f"the CUDA driver says {error.name}{where and f' {where}'}")
    return values[0] if values else None
