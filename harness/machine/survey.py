"""What this machine can grade on: devices with their limits and peaks, compilers, sandboxes. Starts nothing by itself,
unless the peaks are to be measured."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel, ConfigDict, Field

from harness.clock.peaks import Peaks, load, load_or_measure
from harness.machine import device as known
from harness.machine.device import Device
from harness.machine.locks import DeviceLock
from harness.report import DeviceInfo
from harness.sandbox import SANDBOXES


class Compilers(BaseModel):
    """What extensions are compiled with."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    cxx: str | None = Field(alias="c++")
    """The C++ compiler and its version; None where there is none."""
    nvcc: str | None
    """The same of CUDA's."""
    missing: str | None
    """Why one is not there."""


class SandboxState(BaseModel):
    """One way to confine a submission."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: str
    """As `--sandbox` takes it."""
    unavailable: str | None
    """Why it can't be used here; None: it can. The first that can is the default."""


class Survey(BaseModel):
    """All of it, as `harness device --json` prints it."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    auto: str
    """What `--device auto` means here."""
    devices: list[DeviceInfo]
    """Every device, the CPU last."""
    peaks: dict[str, Peaks | None]
    """Of each device by the name that torch has for it; None: not measured yet."""
    compilers: Compilers
    """What is there to compile with."""
    sandboxes: list[SandboxState]
    """The better ones first."""

    def peaks_of(self, info: DeviceInfo) -> Peaks | None:
        """Of one of the devices."""
        return self.peaks.get(info.torch_name)

    def is_auto(self, info: DeviceInfo) -> bool:
        """Whether it is what `--device auto` means."""
        return self.auto == info.torch_name


def survey(*, measure: bool = False, on_wait: Callable[[Device], None] = lambda _: None) -> Survey:
    """Look at this machine.

    `measure` measures the peaks of every device anew, which takes some seconds each, with the device to itself: a
    grading beside it would make it look slower than it is. `on_wait` hears of a device that a grading has.
    """
    devices = known.list_devices()
    return Survey(
        auto=known.open_device("auto").torch_name,
        devices=[found.info for found in devices],
        peaks={found.torch_name: _measured(found, on_wait) if measure else load(found) for found in devices},
        compilers=_compilers(),
        sandboxes=[SandboxState(name=name, unavailable=kind.unavailable()) for name, kind in SANDBOXES.items()],
    )


def _measured(found: Device, on_wait: Callable[[Device], None]) -> Peaks:
    lock = DeviceLock(found.uuid or found.kind, lambda: on_wait(found))
    with lock.held():
        return load_or_measure(found, again=True)


def _compilers() -> Compilers:
    from harness.build.toolchain import MissingCompiler, discover

    try:
        found = discover()
    except MissingCompiler as error:
        return Compilers.model_validate({"c++": None, "nvcc": None, "missing": str(error)})
    missing = None if found.no_cuda is None else str(found.no_cuda)
    return Compilers.model_validate({"c++": found.cxx_version, "nvcc": found.nvcc_version, "missing": missing})
