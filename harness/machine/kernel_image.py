"""Our own kernels (wire/tiles.cu and masks.cu), compiled for a device once and kept.

    CACHE/kernels/KEY.cubin    KEY from the texts, the architecture and the compiler; its hash before it

Workers get it with the order to open the device: they have no compiler, and no cache that outlives them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from pathlib import Path
from typing import Any

import torch

from harness.caches import cache_folder, keep
from harness.machine.device import Device, DeviceError
from harness.wire.hashing import GpuHasher, Hasher, HostHasher
from harness.wire.kernels import Kernels
from harness.wire.mask import GpuMasker, HostMasker, Masker

SOURCES = tuple(Path(__file__).parent.parent / "wire" / name for name in ("tiles.cu", "masks.cu"))
"""Compiled together, in this order."""
_DIGEST = 32


def hasher_for(device: Device) -> Hasher:
    """The grader's own, in its own context. Raises DeviceError where its kernel can't be made."""
    return HostHasher() if device.kind == "cpu" else GpuHasher(_loaded(device.torch_name, device.arch or ""))


def masker_for(device: Device) -> Masker:
    """The same for masks on inputs."""
    return HostMasker() if device.kind == "cpu" else GpuMasker(_loaded(device.torch_name, device.arch or ""))


@functools.cache
def _loaded(name: str, arch: str) -> Kernels:
    image = _image(arch)
    try:
        return Kernels(image, torch.device(name))
    except (ImportError, RuntimeError) as failure:
        raise DeviceError(f"The harness's own kernels can't be loaded on {name}: {failure}.") from failure


def image_for(device: Device) -> bytes:
    """Our kernels as a cubin; nothing for a CPU. Raises DeviceError where it can't be made."""
    return b"" if device.kind == "cpu" else _image(device.arch or "")


@functools.cache
def _image(arch: str) -> bytes:
    source = b"\n".join(path.read_bytes() for path in SOURCES)
    # The compiler comes with torch's CUDA; to ask it for its own version would load it, which takes longer than this.
    key = hashlib.sha256(b"|".join([source, arch.encode(), str(torch.version.cuda).encode()])).hexdigest()[:32]
    path = cache_folder() / "kernels" / f"{key}.cubin"
    with contextlib.suppress(OSError):
        kept = path.read_bytes()
        if hashlib.sha256(kept[_DIGEST:]).digest() == kept[:_DIGEST]:
            return kept[_DIGEST:]
    image = compiled(source, arch)
    with contextlib.suppress(OSError):  # it is compiled again the next time
        keep(path, hashlib.sha256(image).digest() + image)
    return image


def compiled(source: bytes, arch: str) -> bytes:
    """A cubin for a compute capability, such as 9.0. Raises DeviceError with what the compiler says."""
    try:
        from cuda.bindings import nvrtc

        _done(nvrtc.nvrtcVersion(), nvrtc)  # loads the library
    except (ImportError, RuntimeError) as failure:
        what = f"The harness's own kernels can't be compiled: {failure}. `pip install cuda-bindings` brings nvrtc."
        raise DeviceError(what) from failure
    program = _done(nvrtc.nvrtcCreateProgram(source, b"kernels.cu", 0, [], []), nvrtc)
    options = [f"--gpu-architecture=sm_{arch.replace('.', '')}".encode()]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = bytes(_done(nvrtc.nvrtcGetProgramLogSize(program), nvrtc))
        _done(nvrtc.nvrtcGetProgramLog(program, log), nvrtc)
        raise DeviceError(f"The harness's own kernels can't be compiled for {arch}: {log.decode()[:500].strip()}")
    image = bytes(_done(nvrtc.nvrtcGetCUBINSize(program), nvrtc))
    _done(nvrtc.nvrtcGetCUBIN(program, image), nvrtc)
    nvrtc.nvrtcDestroyProgram(program)
    return image


def _done(result: tuple[Any, ...], nvrtc: Any) -> Any:
    error, *values = result
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise DeviceError(f"The compiler of the harness's own kernels says {error.name}.")
    return values[0] if len(values) == 1 else tuple(values)
