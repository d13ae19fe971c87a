"""What calls do, as torch's profiler sees it: a claim like everything that is said in here.

    trace       several calls: kernels and copies by name, with their times
    timeline    one call, event by event: on a GPU launches, copies, and calls of CUDA's API on the host; on a CPU
                torch's operators and the functions of extensions

The timeline is taken also without the call: what is seen then is our own work, and is left out.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.wire.kineto import started

_KERNELS_MAX = 500
_NAME_MAX = 500
_TIMELINE_NAME_MAX = 300
_EVENTS_MAX = 8000
"""Of each kind in a timeline: an answer has a limit, and a reference's loop has no end."""
_TRACE_BYTES_MAX = 512 << 20
_DEVICE = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "fill"}
_EXTENSION = re.compile(r"<built-in method (\w{1,200}) of (?:PyCapsule|pybind11_builtins\.pybind11_detail)")
"""How a function that pybind11 wraps shows in Python's own trace."""


def trace(call: Callable[[], Any], calls: int) -> dict[str, Any]:
    """Make the call several times under the profiler; kernels and copies by name, microseconds of all calls together.

    Whatever the profiler itself can't do is told, and is no failure of the submission's.
    """
    import torch

    profiler, note = _started(on_gpu=True)
    if profiler is None:
        return {"type": "traced", "kernels": [], "note": note}
    try:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    finally:
        profiler.__exit__(None, None, None)
    found: dict[str, list[float]] = {}
    for event in profiler.function_events or []:
        if str(event.device_type).endswith("CUDA"):
            known = found.setdefault(event.name[:_NAME_MAX], [0, 0.0])
            known[0] += 1
            known[1] += max(0.0, float(event.time_range.elapsed_us()))
    longest = sorted(found.items(), key=lambda item: -item[1][1])[:_KERNELS_MAX]
    kernels = [{"name": name, "calls": int(count), "time_us": us} for name, (count, us) in longest]
    return {"type": "traced", "kernels": kernels, "note": "" if kernels else "the profiler saw no kernel"}


def timeline(call: Callable[[], Any], prepare: Callable[[], Any], *, on_gpu: bool) -> dict[str, Any]:
    """One call, event by event. `prepare` is done or queued before it, and does not show."""
    try:
        if not on_gpu:
            prepare()
            return _answer([], operators(_recorded(call, _nothing, on_gpu=False)))
        _recorded(_nothing, prepare, on_gpu=True)  # a profiler's first look may see what it sets up itself
        own = _recorded(_nothing, prepare, on_gpu=True)
        return _answer(*without_own(own, _recorded(call, prepare, on_gpu=True)))
    except _NoTrace as error:
        return {**_answer([], []), "note": str(error)}


def without_own(own: list[dict[str, Any]], whole: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Device and host events of the call alone.

    `own` is what the profiler saw around no call at all: up to the last launch what is queued before a call, and after
    it the wait. Both stand at the ends of `whole` too, and are left out there by count, launches with what they did.
    """
    before, after = _around(own)
    host = _events(whole, ("cuda_runtime", "cuda_driver"))
    ours = {_argument(event, "correlation") for event in host[:before]}
    device = _events(whole, tuple(_DEVICE))
    if before:
        device = [event for event in device if _argument(event, "correlation") not in ours]
    else:  # launches were not seen at all: what was queued first ran first
        device = device[len(_events(own, tuple(_DEVICE))) :]
    return device, host[before : max(before, len(host) - after)]


def operators(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """torch's operators and the functions of extensions, in order; whatever else Python did is left out."""
    found = _events(events, ("cpu_op",))
    for event in _events(events, ("python_function",)):
        if match := _EXTENSION.match(str(event.get("name", ""))):
            # torch's own functions are wrapped by pybind11 as well, and are called from its files.
            if str(_argument(event, "CallFrom") or "").startswith("torch/"):
                continue
            found.append({**event, "name": f"extension: {match[1]}"})
    return sorted(found, key=_start)


def _around(own: list[dict[str, Any]]) -> tuple[int, int]:
    """How many of our host events stand before a call, and how many after it."""
    host = _events(own, ("cuda_runtime", "cuda_driver"))
    did = {_argument(event, "correlation") for event in _events(own, tuple(_DEVICE))}
    launches = [number for number, event in enumerate(host) if _argument(event, "correlation") in did]
    before = launches[-1] + 1 if launches else 0
    return before, len(host) - before


def _recorded(call: Callable[[], Any], prepare: Callable[[], Any], *, on_gpu: bool) -> list[dict[str, Any]]:
    import torch

    profiler, note = _started(on_gpu=on_gpu)
    if profiler is None:
        raise _NoTrace(note)
    try:
        prepare()
        call()
        if on_gpu:
            torch.cuda.synchronize()
    finally:
        profiler.__exit__(None, None, None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        try:
            profiler.export_chrome_trace(str(path))
            if path.stat().st_size > _TRACE_BYTES_MAX:
                raise _NoTrace("the call does more than can be traced")
            # Not strict: torch 2.6 writes control characters in names as they are.
            events = json.loads(path.read_text(errors="replace"), strict=False)["traceEvents"]
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise _NoTrace(f"the trace can't be read: {type(error).__name__}: {error}"[:_NAME_MAX]) from error
    return [event for event in events if event.get("ph") == "X"]


def _started(*, on_gpu: bool) -> tuple[Any, str]:
    """A profiler that is running, or why there is none."""
    try:
        return started(on_gpu=on_gpu, with_stack=not on_gpu), ""
    except Exception as error:  # noqa: BLE001 - as far as it depends on drivers and permissions
        return None, f"{type(error).__name__}: {error}"[:_NAME_MAX]


def _events(events: list[dict[str, Any]], categories: tuple[str, ...]) -> list[dict[str, Any]]:
    return sorted((event for event in events if event.get("cat") in categories), key=_start)


def _start(event: dict[str, Any]) -> float:
    return float(event.get("ts", 0.0))


def _argument(event: dict[str, Any], name: str) -> Any:
    return event.get("args", {}).get(name)


def _answer(device: list[dict[str, Any]], host: list[dict[str, Any]]) -> dict[str, Any]:
    every = [*device, *host]
    began = min(map(_start, every), default=0.0)
    names: dict[str, int] = {}
    kept, cut = device[:_EVENTS_MAX], device[_EVENTS_MAX:]
    return {
        "type": "timeline",
        "device": [
            {
                **_spell(event, began, names),
                "kind": _DEVICE[event["cat"]],
                "stream": _whole(_argument(event, "stream")),
                "grid": _three(_argument(event, "grid")),
                "block": _three(_argument(event, "block")),
                "registers": _whole(_argument(event, "registers per thread")),
                "shared_bytes": _whole(_argument(event, "shared memory")),
                "bytes": _whole(_argument(event, "bytes")),
            }
            for event in kept
        ],
        "host": [{**_spell(event, began, names), "thread": _whole(event.get("tid"))} for event in host[:_EVENTS_MAX]],
        "cut": len(cut),
        "cut_us": sum(_duration(event) for event in cut),
        "names": list(names),
        "note": "" if every else "the profiler saw nothing",
    }


def _spell(event: dict[str, Any], began: float, names: dict[str, int]) -> dict[str, Any]:
    name = names.setdefault(str(event.get("name", ""))[:_TIMELINE_NAME_MAX], len(names))
    return {"name": name, "start_us": max(0.0, _start(event) - began), "us": _duration(event)}


def _duration(event: dict[str, Any]) -> float:
    return max(0.0, float(event.get("dur", 0.0)))


def _whole(value: Any) -> int:
    try:
        return max(0, int(value))
    except (TypeError, ValueError, OverflowError):
        return 0


def _three(value: Any) -> list[int]:
    return [_whole(each) for each in value[:3]] if isinstance(value, list) else []


def _nothing() -> None:
    """No call."""


class _NoTrace(Exception):
    """Why there is no trace."""
