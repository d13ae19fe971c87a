"""The peaks of this machine's devices, and the floors that follow for the sample problems.

    python benchmarks/peaks.py                     every device, three times, and how far the figures moved
    python benchmarks/peaks.py --device cuda:0 --turns 5 --json PATH

Nobody else should use the devices meanwhile. Nothing is taken from the cache or put there.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from harness.clock.floor import floor_us
from harness.clock.peaks import RATES, Peaks, measure, pin_bandwidth
from harness.load.problem import Problem
from harness.machine.device import Device, list_devices, open_device

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="one device instead of all")
    parser.add_argument("--turns", type=int, default=3, help="how often each is measured (default: 3)")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    devices = [open_device(options.device)] if options.device else list_devices()
    found = [report(device, max(1, options.turns)) for device in devices]
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


def report(device: Device, turns: int) -> dict[str, Any]:
    """Measure one device, print, and return what was found."""
    print(f"{device.torch_name}: {device.info.name}")
    taken, seconds = [], []
    for _ in range(turns):
        began = time.monotonic()
        taken.append(measure(device))
        seconds.append(time.monotonic() - began)
    last = taken[-1]
    print(f"  measuring took {', '.join(f'{each:.2f}' for each in seconds)} s (the first creates the device's context)")
    pins = pin_bandwidth(device.info)
    print(f"  {'':14}{'peak':>11}  {'reached, ' + str(turns) + ' times':34}of the peak")
    for name in ("bytes_per_s", *RATES):
        peak: float | None = getattr(last, name)
        reached = [peaks.reached[name] for peaks in taken if name in peaks.reached]
        shown = " ".join(f"{figure:.4g}" for figure in reached)
        share = f"{100 * max(reached) / peak:.1f} %" if peak and reached else "-"
        print(f"  {name:14}{'-' if peak is None else format(peak, '.4g'):>11}  {shown:34}{share}")
    if pins is not None:
        best = max(peaks.reached["bytes_per_s"] for peaks in taken)
        print(f"  the memory's pins: {pins:.4g} bytes a second, of which the copy reached {100 * best / pins:.1f} %")
    for name in ("launch_us", "event_offset_us"):
        print(f"  {name:16}{' '.join(f'{getattr(peaks, name):.3g}' for peaks in taken)}")
    floors = [line for path in sorted((ROOT / "problems").iterdir()) for line in floor_of(path, device, last)]
    return {
        "device": device.info.model_dump(mode="json"),
        "seconds": seconds,
        "peaks": [peaks.model_dump(mode="json") for peaks in taken],
        "floors": floors,
    }


def floor_of(path: Path, device: Device, peaks: Peaks) -> list[dict[str, Any]]:
    """Print and return the floor of a problem's default workload."""
    problem = Problem.load(path)
    workload = problem.workload(None, device.kind)
    floor = floor_us(problem.floor_ways(workload), peaks)
    if floor is None:
        return []
    limit = "nothing is rejected" if floor.limit_us is None else f"rejected below {floor.limit_us:.4g} us"
    print(f"  floor of {problem.id}: {floor.us:.4g} us, bound by {floor.bound_by} ({floor.way}); {limit}")
    return [
        {
            "problem": problem.id,
            "workload": workload.name,
            "us": floor.us,
            "bound_by": floor.bound_by,
            "way": floor.way,
            "limit_us": floor.limit_us,
        }
    ]


if __name__ == "__main__":
    main()
