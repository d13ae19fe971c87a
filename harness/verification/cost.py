"""What a call of the reference takes, against the problem's limits: a submission gets as much as they say, and a
reference that needs more can't be timed beside it."""

from __future__ import annotations

import contextlib
import re
import statistics
from pathlib import Path

import torch

from harness.verification.findings import Cost
from harness.verification.subject import Found, Subject

SLOW_S = 1.0
"""A call that takes longer makes a grading, which calls the reference some tens of times, a matter of minutes."""
_NEARLY = 0.5
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def check_cost(subject: Subject, found: Found) -> None:
    """Measure a call, with those that were made before."""
    memory = _peak_of_a_call(subject)
    limits, workload = subject.problem.spec.limits, subject.workload
    tensor_bytes = subject.state_bytes() + subject.oracle.call_bytes
    call_s = statistics.median(subject.calls_s)
    found.costs.append(
        Cost(
            workload=workload.name,
            construct_s=round(subject.construct_s, 6),
            call_s=round(call_s, 6),
            memory_bytes=memory,
            tensor_bytes=tensor_bytes,
        )
    )
    where = {"workload": workload.name, "device": subject.device.type}
    if subject.construct_s > limits.construct_s:
        found.add(
            "error",
            "cost.construct",
            f"Constructing the reference takes {subject.construct_s:.3g} s, and limits.construct_s is "
            f"{limits.construct_s:g}: raise it.",
            seconds=subject.construct_s,
            limit_s=limits.construct_s,
            **where,
        )
    if call_s > limits.call_s:
        found.add(
            "error",
            "cost.call",
            f"A call of the reference takes {call_s:.3g} s in workload {workload.name}, and limits.call_s is "
            f"{limits.call_s:g}: raise it, or choose smaller sizes.",
            seconds=call_s,
            limit_s=limits.call_s,
            **where,
        )
    elif call_s > SLOW_S and workload.timed:
        found.add(
            "warning",
            "cost.slow",
            f"A call of the reference takes {call_s:.3g} s in workload {workload.name}, and a grading makes some tens: "
            "choose smaller sizes for this kind of device.",
            seconds=call_s,
            **where,
        )
    _memory(subject, found, memory, tensor_bytes)


def _memory(subject: Subject, found: Found, memory: int | None, tensor_bytes: int) -> None:
    """memory_gb limits the host's memory; of a GPU what is there is the limit, and running out of it raises."""
    limit_gb = subject.problem.spec.limits.memory_gb
    used = memory if memory is not None else tensor_bytes
    if limit_gb is None or subject.device.type == "cuda" or used <= _NEARLY * limit_gb * 1e9:
        return
    over = used > limit_gb * 1e9
    found.add(
        "error" if over else "warning",
        "cost.memory",
        f"A process that calls the reference has {used / 1e9:.3g} GB in use in workload {subject.workload.name}, and "
        f"limits.memory_gb is {limit_gb:g}: raise it, or choose smaller sizes.",
        workload=subject.workload.name,
        memory_bytes=used,
        limit_gb=limit_gb,
    )


def _peak_of_a_call(subject: Subject) -> int | None:
    """The most memory in use during one more call, bytes."""
    if subject.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(subject.device)
        subject.expected(0)
        return int(torch.cuda.max_memory_allocated(subject.device))
    cleared = False
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")  # forget the highest resident size so far (Linux)
        cleared = True
    subject.expected(0)
    if not cleared:
        return None
    with contextlib.suppress(OSError):
        if match := re.search(r"^VmHWM:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE):
            return int(match[1]) * 1024
    return None
