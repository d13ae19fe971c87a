"""What to try next, from a report: at most three sentences, each with the tool or the place to look at."""

from __future__ import annotations

from harness.report import Report, Timing, Verdict
from harness.sanitizing.findings import Kind, Sanitizing

_MOST = 3
_LAUNCH_BOUND_US = 10.0
"""A call this short is mostly launches and host time."""
_CLOSE = 0.7
"""Of the floor: there is little left to gain."""

_BY_VERDICT = {
    Verdict.COMPILE_ERROR: "Correct the first error and call compile, which is quicker than check and needs no device.",
    Verdict.WRONG_ANSWER: "Read which leaf is wrong and where: errors at the edges point to sizes that are no multiple "
    "of a tile, errors everywhere to the formula or the order of dimensions. Then call check.",
    Verdict.RUNTIME_ERROR: "Look at the traceback and the evidence; an illegal access often means an index without a "
    "bound check. Then call check.",
    Verdict.TIME_LIMIT: "Look for a loop that does not end, or far more work than the reference does. Then call check.",
    Verdict.MEMORY_LIMIT: "Allocate less, or free what is not needed any more, before calling check again.",
    Verdict.OUTPUT_LIMIT: "Print less, or nothing.",
    Verdict.REJECTED: "The rule that was broken is in the reason; do without what it forbids. Then call check.",
    Verdict.INVALID_SUBMISSION: "Give one Python file with a class ModelNew whose constructor and forward take what "
    "the problem's Model takes; the tool problem shows it.",
    Verdict.UNSTABLE: "This says nothing of the submission: call run again.",
    Verdict.JUDGE_ERROR: "This is the grader's fault: call the tool again, and tell a person if it stays.",
}
_BY_KIND: dict[Kind, str] = {
    "out_of_bounds_read": "Bound the index on that line by the tensor's size; look at the last block, and at sizes "
    "that are no multiple of it.",
    "out_of_bounds_write": "Bound the index on that line by the tensor's size, and see that what is written to was "
    "made large enough.",
    "misaligned_access": "A vector load or store on that line needs an address that is a multiple of its size: read "
    "the first and last elements one by one, or use narrower accesses.",
    "shared_memory_race": "Put a __syncthreads() between the places named, where all threads of the block reach it; in "
    "a loop also before the memory is written again.",
    "uninitialized_read": "Write every element before it is read: torch.zeros where torch.empty was, or a kernel that "
    "covers all of it.",
    "barrier_error": "Move the barrier out of the condition or the loop that not all threads go through; no thread may "
    "return before it.",
    "device_heap_error": "Free what malloc of that kernel gave, once; better still, take memory from torch in forward.",
    "other": "Read compute-sanitizer's own words for it.",
}
"""Every kind of finding."""


def next_steps(report: Report) -> list[str]:
    """For the one who wrote the submission."""
    if report.verdict is not Verdict.ACCEPTED:
        return [_BY_VERDICT[report.verdict]]
    if report.mode == "compile":
        return [*_of_kernels(report), "It builds: call check to see whether it is right."][-_MOST:]
    if report.profile is not None:
        found = [finding.advice for finding in report.profile.findings[:_MOST]]
        return found or ["No rule found anything that costs time: compare with the floor, or try another algorithm."]
    timings = [each.timing for each in report.workloads if each.timing is not None]
    # Of several workloads the one that gains least over the reference has most to gain.
    timing = report.timing or min(timings, key=lambda each: each.speedup, default=None)
    if timing is None:
        return ["It is right: call run to see how fast it is."]
    return [*_of_timing(timing), *_of_kernels(report), "Call profile to see where the time goes."][:_MOST]


def _of_timing(timing: Timing) -> list[str]:
    steps = []
    share = timing.fraction_of_floor
    if share is not None and share >= _CLOSE and timing.floor is not None:
        steps.append(f"It reaches {share:.0%} of the floor: there is little left to gain. Submit it.")
    elif share is not None and timing.floor is not None:
        what = "memory traffic" if timing.floor.bound_by == "bytes" else timing.floor.bound_by
        steps.append(
            f"It reaches {share:.1%} of the floor, which is bound by {what}: look for passes over memory that can be "
            "fused, accesses that are not coalesced or vectorised, and too few blocks to fill the device."
        )
    if timing.candidate.host_bound:
        steps.append("Its time is the host's: launch fewer kernels, don't synchronise in forward, allocate less.")
    elif timing.candidate.median_us < _LAUNCH_BOUND_US and (share is None or share < _CLOSE):
        steps.append("A call is so short that each launch counts: put the work into one kernel.")
    if timing.comparison != "faster":
        steps.append("It is not faster than the reference: start with the step that moves the most bytes.")
    return steps


def _of_kernels(report: Report) -> list[str]:
    spilled = [kernel for kernel in report.build.kernels if kernel.spill_store_bytes or kernel.spill_load_bytes]
    if not spilled:
        return []
    return [f"{spilled[0].name[:80]} spills registers to memory: hold fewer values a thread, or use smaller blocks."]


def sanitizing_steps(found: Sanitizing) -> list[str]:
    """For the one who wrote the submission."""
    kinds = list(dict.fromkeys(finding.kind for finding in found.findings))
    if kinds:
        tools = list(dict.fromkeys(finding.tool for finding in found.findings))
        return [
            *(_BY_KIND[kind] for kind in kinds[: _MOST - 1]),
            f"Then call sanitize again, with tool {tools[0]} first.",
        ]
    if not found.clean:
        return ["The call did not come to its end, so nothing is known: call check, and mend what that says first."]
    return [
        "Nothing was found in what this workload runs. Name a workload with sizes that no block divides, if there is "
        "one; then call run."
    ]
