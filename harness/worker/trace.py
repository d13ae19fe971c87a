"""Which kernels a call launches, as torch's profiler sees it: a claim like everything that is said in here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_KERNELS_MAX = 500
_NAME_MAX = 500


def trace(call: Callable[[], Any], calls: int) -> dict[str, Any]:
    """Make the call several times under the profiler; kernels and copies by name, microseconds of all calls together.

    Whatever the profiler itself can't do is told, and is no failure of the submission's.
    """
    import torch

    try:
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True)
        profiler.start()
    except Exception as error:  # noqa: BLE001 - as far as it depends on drivers and permissions
        return {"type": "traced", "kernels": [], "note": f"{type(error).__name__}: {error}"[:_NAME_MAX]}
    try:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    finally:
        profiler.stop()
    found: dict[str, list[float]] = {}
    for event in profiler.events() or []:
        if str(event.device_type).endswith("CUDA"):
            known = found.setdefault(event.name[:_NAME_MAX], [0, 0.0])
            known[0] += 1
            known[1] += max(0.0, float(event.time_range.elapsed_us()))
    longest = sorted(found.items(), key=lambda item: -item[1][1])[:_KERNELS_MAX]
    kernels = [{"name": name, "calls": int(count), "time_us": us} for name, (count, us) in longest]
    return {"type": "traced", "kernels": kernels, "note": "" if kernels else "the profiler saw no kernel"}
