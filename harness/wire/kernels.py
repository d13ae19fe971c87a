"""Our own kernels on a GPU (tiles.cu, masks.cu), loaded from an image. Used on both sides of the wire."""

from __future__ import annotations

import threading
from typing import Any

import torch

from harness.wire.driver import done

THREADS = 128
"""Of a block, in both texts."""


class Kernels:
    """Of one image, in one context. They are launched on the current stream."""

    def __init__(self, image: bytes, device: torch.device) -> None:
        """`image`: a cubin for this GPU. Raises RuntimeError where it can't be loaded."""
        from cuda.bindings import driver

        torch.cuda.current_stream(device).synchronize()  # there is a context now
        self.device = device
        self._driver: Any = driver
        self._threads = threading.local()
        with torch.cuda.device(device):
            module = done(driver.cuModuleLoadData(image))
            self._context = done(driver.cuCtxGetCurrent())
        self._functions = {
            name: done(driver.cuModuleGetFunction(module, name.encode()))
            for name in ("hash_tiles", "mask_bytes", "await_key", "publish")
        }

    def launch(self, name: str, blocks: int, threads: int, values: tuple[int, ...], kinds: tuple[Any, ...]) -> None:
        """Queue one. `kinds`: the ctypes of its arguments."""
        if not getattr(self._threads, "known", False):
            # A thread that torch has done nothing in has no context.
            if not int(done(self._driver.cuCtxGetCurrent())):
                done(self._driver.cuCtxSetCurrent(self._context))
            self._threads.known = True
        with torch.cuda.device(self.device):
            stream = torch.cuda.current_stream(self.device).cuda_stream
            done(
                self._driver.cuLaunchKernel(
                    self._functions[name], blocks, 1, 1, threads, 1, 1, 0, stream, (values, kinds), 0
                )
            )
