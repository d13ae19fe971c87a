"""What a device can do at most, measured once and kept: bandwidth, rates of operations, costs of the clock itself.

    Device --load_or_measure--> Peaks        CACHE/peaks/KEY.json, KEY from device, driver, torch and recipe

A floor that is too high would reject an honest kernel, so each figure of a GPU is one that nobody passes by more than
the tenth that the judge allows:

- Operations: the larger of what cuBLAS reaches and what the units can do (`architectures.py`) at the highest SM clock.
  An architecture that is not listed there has no such bound, so its operations take no part in a floor.
- Bytes: the larger of the measured copy and 0.9 of what the memory's pins can do (clock x 2 x bus width). Copies reach
  about 0.88 to 0.92 of the pins, pure reads a little more, so the measured copy is what to compare a kernel with. The
  pins guard against a copy that was slow by accident; with them, 0.9 of the floor is never above the pins' own time.
- special_ops: what the special-function units do. Polynomials on the fp32 pipe can take a part of that work over;
  `floor.py` allows for it where a verdict hangs on it.

A CPU's figures are only what was reached, on whatever else the machine was doing: good to compare with, no bound.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.caches import cache_folder, keep
from harness.clock.architectures import per_clock
from harness.machine.device import Device, DeviceError
from harness.report import DeviceInfo
from harness.sandbox import Sandbox
from harness.sandbox import default as default_sandbox

if TYPE_CHECKING:
    from harness.clock.offset import Offset

RECIPE = 2
"""Moves when a figure is measured or derived in another way: older files are then measured again."""
PIN_SHARE = 0.9
"""Least share of the pins' bandwidth that counts as the peak."""
RATES = ("fp64_flops", "fp32_flops", "tf32_flops", "fp16_flops", "special_ops")
"""Operations, named as a problem's floor names them."""

Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Source = Literal["measured", "derived"]


class Peaks(BaseModel):
    """The peaks of one device."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    device: str
    """The device's name."""
    kind: Literal["cuda", "cpu"]
    """A GPU's figures are bounds; a CPU's are what was reached once."""
    bytes_per_s: Rate
    """Bytes of device memory a second, read plus written."""
    fp64_flops: Rate | None
    """Operations a second; a multiply-add counts 2. None, here and below: there is no bound to go by."""
    fp32_flops: Rate | None
    """Outside the tensor cores."""
    tf32_flops: Rate | None
    """In the tensor cores, dense."""
    fp16_flops: Rate | None
    """fp16 and bf16 in the tensor cores, dense."""
    special_ops: Rate | None
    """exp, log, sqrt, sin and the like, results a second of the special-function units."""
    l2_bytes: int | None
    """L2 cache; for a CPU the last-level cache."""
    launch_us: float = Field(ge=0)
    """Host time of submitting one small kernel through torch, microseconds."""
    event_offset_us: float = Field(ge=0)
    """What a pair of events reads beside the kernel between them, microseconds; 0 for a CPU. See offset.py."""
    event_offset_half_us: float = Field(ge=0)
    """Half width of its 95 % interval, for one process."""
    null_kernel_us: float | None
    """Duration of the smallest kernel, by CUPTI; None where CUPTI may not look, and then the offset is what an empty
    pair reads."""
    source: dict[str, Source]
    """Where each rate comes from: measured here, or derived from units, clocks and bus width."""
    reached: dict[str, Rate]
    """What copies and products reached, whichever figure counts."""
    measured_at: datetime
    """UTC."""
    torch: str
    """Version of torch."""
    driver: str | None
    """Version of the driver; None for a CPU."""
    recipe: int = RECIPE
    """How it was measured."""


def measure(device: Device, sandbox: Sandbox | None = None) -> Peaks:
    """Measure a device that nobody else uses meanwhile: 2 s, and for a GPU some more for processes in `sandbox`.

    Raises DeviceError.
    """
    import torch

    from harness.clock.offset import Offset, measure_offset
    from harness.clock.rates import cpu_rates, cuda_rates, launch_us
    from harness.workers.worker import WorkerFailure

    place = torch.device(device.torch_name)
    try:
        with torch.cuda.device(place) if device.kind == "cuda" else contextlib.nullcontext():
            reached = cuda_rates(place) if device.kind == "cuda" else cpu_rates(device.info.l2_bytes)
            offset = Offset(0.0, 0.0)
            if device.kind == "cuda":
                offset = measure_offset(device, sandbox or default_sandbox())
            return combine(
                device.info, reached, launch_us=launch_us(place), offset=offset, measured_at=datetime.now(UTC)
            )
    except RuntimeError as error:  # what torch raises for every error of a device, running out of its memory included
        first_line = str(error).strip().partition("\n")[0].rstrip(".")
        raise DeviceError(
            f"{device.torch_name} can't be measured: {first_line}; see whether somebody else is using it."
        ) from error
    except WorkerFailure as failure:  # of a process of ours: no submission's fault
        raise DeviceError(
            f"{device.torch_name} can't be measured: a process for it failed ({failure}); try again."
        ) from failure


def combine(
    info: DeviceInfo,
    reached: dict[str, float],
    *,
    launch_us: float,
    offset: Offset,
    measured_at: datetime,
) -> Peaks:
    """Peaks from what was reached and what is known of the device; pure."""
    bounds = _derived(info)
    figures: dict[str, float | None] = {}
    source: dict[str, Source] = {}
    for name in ("bytes_per_s", *RATES):
        measured, derived = reached.get(name), bounds.get(name)
        if derived is None and info.kind == "cuda" and name in RATES:
            figures[name] = None
            continue
        figures[name] = max((figure for figure in (measured, derived) if figure is not None), default=None)
        if figures[name] is not None:
            source[name] = "measured" if figures[name] == measured else "derived"
    return Peaks.model_validate(
        {
            **figures,
            "device": info.name,
            "kind": info.kind,
            "l2_bytes": info.l2_bytes,
            "launch_us": launch_us,
            "event_offset_us": offset.us,
            "event_offset_half_us": offset.half_us,
            "null_kernel_us": offset.null_us,
            "source": source,
            "reached": reached,
            "measured_at": measured_at,
            "torch": info.torch,
            "driver": info.driver,
        }
    )


def pin_bandwidth(info: DeviceInfo) -> float | None:
    """Bytes a second that the memory's pins can move: two transfers a clock, on every line of the bus."""
    if info.memory_clock_max_mhz is None or info.memory_bus_bits is None:
        return None
    return info.memory_clock_max_mhz * 1e6 * 2 * info.memory_bus_bits / 8


def _derived(info: DeviceInfo) -> dict[str, float]:
    derived = {}
    pins = pin_bandwidth(info)
    if pins is not None:
        derived["bytes_per_s"] = PIN_SHARE * pins
    units = per_clock(info.compute_capability)
    if units is not None and info.sms is not None and info.sm_clock_max_mhz is not None:
        for name in RATES:
            derived[name] = getattr(units, name) * info.sms * info.sm_clock_max_mhz * 1e6
    return derived


def load_or_measure(
    device: Device,
    sandbox: Sandbox | None = None,
    *,
    again: bool = False,
    on_measure: Callable[[], None] | None = None,
) -> Peaks:
    """The kept figures, or fresh ones, which are then kept.

    `again` measures in any case; `on_measure` is called before measuring.
    """
    known = None if again else load(device)
    if known is not None:
        return known
    if on_measure is not None:
        on_measure()
    peaks = measure(device, sandbox)
    # A machine whose cache can't be written measures every time.
    with contextlib.suppress(OSError):
        keep(_path(device), peaks.model_dump_json(indent=2).encode())
    return peaks


def load(device: Device) -> Peaks | None:
    """The kept figures; None where there are none, or none that can be read."""
    try:
        peaks = Peaks.model_validate_json(_path(device).read_bytes())
    except (OSError, ValidationError):
        return None
    return peaks if peaks.recipe == RECIPE and peaks.kind == device.kind else None


def _path(device: Device) -> Path:
    info = device.info
    identity = [device.uuid or info.name, info.cores if device.uuid is None else info.sms, info.driver, info.torch]
    key = hashlib.sha256(json.dumps([RECIPE, *identity]).encode()).hexdigest()[:32]
    return cache_folder() / "peaks" / f"{key}.json"
