"""The stated floor: no legal solution may be below it, so neither may the tensors that there are, nor a known time."""

from __future__ import annotations

from harness.verification.findings import Example
from harness.verification.subject import Found, Subject


def check_floor(subject: Subject, found: Found) -> None:
    """Hold the floor's bytes against all that a call can have to move: inputs and state in, outputs and state out."""
    problem, workload = subject.problem, subject.workload
    buffers = 0
    if subject.oracle.buffers_move:
        buffers = sum(buffer.nbytes for buffer in subject.oracle.model.buffers())
    most = subject.oracle.call_bytes + subject.state_bytes() + buffers
    for way in problem.floor_ways(workload):
        stated = way.work.get("bytes", 0.0)
        if stated > most:
            found.add(
                "error",
                "floor.bytes",
                f"The floor of workload {workload.name} counts {stated:.0f} bytes, but inputs, parameters and outputs "
                f"have only {most} together: a right submission could be called too fast. Count each tensor once.",
                workload=workload.name,
                way=way.name,
                stated=stated,
                most=most,
            )


def check_stated(subject: Subject, found: Found) -> None:
    """Say where there is no floor at all."""
    if subject.workload.timed and not subject.problem.floor_ways(subject.workload):
        found.add(
            "note",
            "floor.none",
            "The problem states no floor: a time that can't be is not known as such, and no report says how near to "
            "the best a kernel comes.",
        )


def check_times(examples: list[Example], found: Found) -> None:
    """Hold the floor against the times of right submissions and of the reference."""
    for example in examples:
        below_floor = example.got is not None and example.got[1] == "time.below_floor"
        if example.floor_us is None or not (below_floor or (example.got and example.got[0] == "accepted")):
            continue
        times = {example.file: example.median_us, "the reference": example.reference_us}
        for who, us in times.items():
            if us is not None and us < example.floor_us:
                found.add(
                    "error",
                    "floor.above_time",
                    f"The floor is {example.floor_us:.3g} us, and {who} takes {us:.3g} us: it states work that can be "
                    "avoided. Count only what no legal solution can do without.",
                    file=example.file,
                    of=who,
                    us=us,
                    floor_us=example.floor_us,
                )
