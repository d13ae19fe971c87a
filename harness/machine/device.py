"""Which device a grading runs on, what is known of it, and what a process needs to reach it.

    'auto' | 'cpu' | 'cuda' | 'cuda:1'  --open_device-->  Device

Nothing here creates a CUDA context: a grader that only plans, compiles or prints must not hold memory on a device that
somebody else is timing on. CUDA's figures come from torch's device properties, the rest from NVML, which may be absent:
then those fields are None.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.machine.place import Place, nodes_of
from harness.report import DeviceInfo

_CPU_CACHE = Path("/sys/devices/system/cpu")
_NVIDIA_PROC = Path("/proc/driver/nvidia")


class DeviceError(Exception):
    """The device asked for can't be had. The message is plain: what is the matter, what to do."""


@dataclass(frozen=True)
class Device:
    """One device that a grading can run on."""

    kind: Literal["cuda", "cpu"]
    index: int | None
    """As CUDA counts the visible devices; None for the CPU."""
    uuid: str | None
    """`GPU-...`: the same device in every process, whatever CUDA_VISIBLE_DEVICES says there."""
    info: DeviceInfo
    nodes: tuple[str, ...] = ()
    """Device nodes that a process must be able to open to use this GPU; a CPU needs none."""

    @property
    def torch_name(self) -> str:
        """What torch calls it in this process."""
        return "cpu" if self.index is None else f"cuda:{self.index}"

    @property
    def place(self) -> Place:
        """As much of it as starting a process takes."""
        return Place(self.kind, self.index, self.uuid, self.nodes)

    @property
    def lock_name(self) -> str:
        """What its lock is called."""
        return self.uuid or self.kind

    @property
    def arch(self) -> str | None:
        """Compute capability as compilers take it, `9.0`; None for a CPU."""
        return self.info.compute_capability


def open_device(spec: str = "auto") -> Device:
    """The device that `spec` means: auto (the first CUDA device, else the CPU), cpu, cuda, cuda:0, cuda:1, ..."""
    wanted = spec.strip().lower()
    if wanted == "cpu":
        return _cpu()
    if wanted == "auto":
        return _cuda(0) if _cuda_count() else _cpu()
    match = re.fullmatch(r"cuda(?::(\d{1,4}))?", wanted)
    if match is None:
        raise DeviceError(f"There is no device {spec!r}: write auto, cpu, cuda, or cuda:N with N from 0.")
    index, count = int(match[1] or 0), _cuda_count()
    if count == 0:
        raise DeviceError(f"{_why_no_cuda()} Without a GPU, --device cpu grades on the CPU.")
    if index >= count:
        have = "only cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise DeviceError(f"There is no device {wanted}: this machine shows {have}; name one that is there.")
    return _cuda(index)


def list_devices() -> list[Device]:
    """Every device that can be asked for: the CUDA devices in CUDA's order, then the CPU."""
    return [*(_cuda(index) for index in range(_cuda_count())), _cpu()]


def _cuda_count() -> int:
    import torch

    with warnings.catch_warnings():
        # A driver too old for torch is a warning to torch and "no CUDA" to us; _why_no_cuda says it in words.
        warnings.simplefilter("ignore")
        return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _why_no_cuda() -> str:
    import torch

    if torch.version.cuda is None:
        return f"The installed torch ({torch.__version__}) is built without CUDA; install its CUDA build."
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and _nvidia_driver() is not None:
        return f"No CUDA device is visible: CUDA_VISIBLE_DEVICES is {visible!r}; unset it or name a device that exists."
    if _nvidia_driver() is None:
        return "There is no CUDA device: no NVIDIA driver is loaded on this machine."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        first_line = str(error).strip().partition("\n")[0].rstrip(".")
        return f"CUDA can't be used here: {first_line}; check that nvidia-smi works and that the driver is new enough."
    return "torch finds no CUDA device; check that nvidia-smi shows one."


def _cuda(index: int) -> Device:
    import torch

    try:
        properties: Any = torch.cuda.get_device_properties(index)
    except (RuntimeError, AssertionError) as error:
        first_line = str(error).strip().partition("\n")[0].rstrip(".")
        raise DeviceError(f"cuda:{index} can't be used: {first_line}; check it with nvidia-smi.") from error
    bare = getattr(properties, "uuid", None)
    uuid = None if bare is None else f"GPU-{bare}"
    nvml = _ask_nvml(uuid)
    info = DeviceInfo(
        kind="cuda",
        name=properties.name,
        index=index,
        uuid=uuid,
        compute_capability=f"{properties.major}.{properties.minor}",
        sms=properties.multi_processor_count,
        memory_bytes=properties.total_memory,
        l2_bytes=getattr(properties, "L2_cache_size", None),
        cores=_cores(),
        shared_memory_per_block_bytes=getattr(properties, "shared_memory_per_block", None),
        shared_memory_per_block_optin_bytes=getattr(properties, "shared_memory_per_block_optin", None),
        shared_memory_per_sm_bytes=getattr(properties, "shared_memory_per_multiprocessor", None),
        registers_per_sm=getattr(properties, "regs_per_multiprocessor", None),
        max_threads_per_sm=getattr(properties, "max_threads_per_multi_processor", None),
        max_threads_per_block=getattr(properties, "max_threads_per_block", None),
        warp_size=getattr(properties, "warp_size", None),
        sm_clock_max_mhz=nvml.sm_clock_max_mhz,
        memory_clock_max_mhz=nvml.memory_clock_max_mhz,
        memory_bus_bits=getattr(properties, "memory_bus_width", None) or nvml.memory_bus_bits,
        driver=nvml.driver or _nvidia_driver(),
        driver_cuda=nvml.driver_cuda,
        **_software(),
    )
    return Device("cuda", index, uuid, info, nodes_of(nvml.minor))


def _cpu() -> Device:
    import psutil

    info = DeviceInfo(
        kind="cpu",
        name=_cpu_name(),
        memory_bytes=psutil.virtual_memory().total,
        l2_bytes=_last_level_cache_bytes(),
        cores=_cores(),
        **_software(),
    )
    return Device("cpu", None, None, info)


def _software() -> dict[str, Any]:
    import torch

    return {
        "cuda": torch.version.cuda,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


@dataclass(frozen=True)
class _Nvml:
    """What NVML alone knows of a GPU; each field None where it wouldn't say."""

    minor: int | None = None
    """The N of the GPU's own /dev/nvidiaN; not CUDA's index, and not even NVML's."""
    driver: str | None = None
    driver_cuda: str | None = None
    """The newest CUDA that the driver runs, `13.0`."""
    sm_clock_max_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    memory_bus_bits: int | None = None


def _ask_nvml(uuid: str | None) -> _Nvml:
    """Found by UUID: NVML counts all devices of the machine, CUDA only the visible ones and in an order of its own."""
    try:
        import pynvml
    except ImportError:
        return _Nvml()

    def ask(question: Callable[..., Any], *args: Any) -> Any:
        try:
            return question(*args)
        except pynvml.NVMLError:
            return None

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return _Nvml()
    try:
        driver = ask(pynvml.nvmlSystemGetDriverVersion)
        driver_cuda = _cuda_version(ask(pynvml.nvmlSystemGetCudaDriverVersion))
        handle = None if uuid is None else ask(pynvml.nvmlDeviceGetHandleByUUID, uuid)
        if handle is None:
            return _Nvml(driver=driver, driver_cuda=driver_cuda)
        return _Nvml(
            minor=ask(pynvml.nvmlDeviceGetMinorNumber, handle),
            driver=driver,
            driver_cuda=driver_cuda,
            sm_clock_max_mhz=ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
            memory_clock_max_mhz=ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_MEM),
            memory_bus_bits=ask(pynvml.nvmlDeviceGetMemoryBusWidth, handle),
        )
    finally:
        ask(pynvml.nvmlShutdown)


def _cuda_version(number: int | None) -> str | None:
    """13000 is 13.0, 12080 is 12.8."""
    return None if not number else f"{number // 1000}.{number % 1000 // 10}"


def _nvidia_driver() -> str | None:
    """Version of the loaded kernel driver, for when NVML is missing."""
    try:
        text = (_NVIDIA_PROC / "version").read_text()
    except OSError:
        return None
    match = re.search(r"Kernel Module\b.*?\s(\d+(?:\.\d+)+)", text)
    return match[1] if match else "unknown"


def _cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    match = re.search(r"^model name\s*:\s*(\S.*)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine() or "CPU"


def _last_level_cache_bytes() -> int | None:
    """Of one core's view: what a cold measurement must overwrite."""
    levels: dict[int, int] = {}
    for folder in _CPU_CACHE.glob("cpu0/cache/index*"):
        try:
            level = int((folder / "level").read_text())
            size = (folder / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        match = re.fullmatch(r"(\d+)([KMG]?)", size)
        if match:
            levels[level] = int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]
    if levels:
        return levels[max(levels)]
    for name in ("SC_LEVEL3_CACHE_SIZE", "SC_LEVEL2_CACHE_SIZE"):
        # Inside a sandbox without /sys the C library still asks the processor itself.
        try:
            size_bytes = os.sysconf(name)
        except (OSError, ValueError):
            continue
        if size_bytes > 0:
            return size_bytes
    return None
