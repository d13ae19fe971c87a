"""From evidence to verdict: one pure function, in the order in which reasons count.

Our own failures come first, then what kept the submission from running, then wrong results, then broken rules, then
figures that can't be believed. Nothing here looks at anything but its argument.
"""

from __future__ import annotations

import math

from harness.audit.verdicts import coarse_values, judge_audit, outside_by_precision
from harness.judge.evidence import Evidence
from harness.judge.failures import broken_build, judge_failure, not_built
from harness.judge.wording import Judgement, count, first_bad, leaf_evidence, say, values_message
from harness.report import OutsideClock, Reason, Steadiness, Verdict


def judge(evidence: Evidence) -> Judgement:
    """Decide."""
    judgement = _judge(evidence)
    ours = judgement.verdict in (Verdict.JUDGE_ERROR, Verdict.ACCEPTED)
    return judgement if ours or evidence.workload is None else _at_workload(judgement, evidence, evidence.workload)


def _judge(evidence: Evidence) -> Judgement:
    if evidence.internal is not None:
        return say(
            Verdict.JUDGE_ERROR,
            "judge.internal_error",
            "The grader itself failed; this says nothing about the submission. Please report the traceback.",
            traceback=evidence.internal,
        )
    if evidence.invalid is not None:
        return say(
            Verdict.INVALID_SUBMISSION, evidence.invalid.code, evidence.invalid.message, **evidence.invalid.evidence
        )
    if evidence.failure is not None:
        return judge_failure(evidence, evidence.failure)
    if evidence.mode == "compile":
        # Also one whose failure the submission caught, or that came in a constructor which has no device here.
        if broken := broken_build(evidence):
            return not_built(broken)
        return say(Verdict.ACCEPTED, "grade.compiled", f"{count(len(evidence.builds), 'extension')} built.")
    if evidence.form is not None:
        verdict = Verdict.REJECTED if evidence.form.code == "output.tensor_type" else Verdict.WRONG_ANSWER
        return say(verdict, evidence.form.code, evidence.form.message, **evidence.form.evidence)
    return (
        _outputs(evidence) or _rules(evidence) or judge_audit(evidence) or _below_floor(evidence) or _accepted(evidence)
    )


def _at_workload(judgement: Judgement, evidence: Evidence, workload: str) -> Judgement:
    """Say at which of several sizes it happened."""
    reason = judgement.reason
    if workload in evidence.ranks:
        message = f"{reason.message} This was with the workload {workload!r}, one of {len(evidence.ranks)} that rank."
    else:
        message = f"{reason.message} This was at the further sizes that the problem checks, its workload {workload!r}."
    return Judgement(
        judgement.verdict, Reason(code=reason.code, message=message, evidence=reason.evidence | {"workload": workload})
    )


def _outputs(evidence: Evidence) -> Judgement | None:
    early, live = first_bad(evidence.early), first_bad(evidence.live)
    if early and evidence.live and not live:
        return say(
            Verdict.REJECTED,
            "output.unfinished",
            f"{early.path} was not finished on the caller's stream when forward returned, and was right only later: "
            "join your streams to the current one (wait for an event), and your threads, before returning.",
            **leaf_evidence(early),
        )
    if live and not early:
        return say(
            Verdict.REJECTED,
            "output.overwritten",
            f"{live.path} was right when forward returned and changed afterwards: return memory that later calls "
            "don't write to, and leave no work running.",
            **leaf_evidence(live),
        )
    if early:
        message = values_message(early)
        if (coarse := coarse_values(evidence, early)) is not None:
            return outside_by_precision(evidence, coarse, message)
        if mutated := first_bad(evidence.mutated):
            message += f" forward also changed its argument {mutated.path}, which may be the cause: work on a copy."
        return say(Verdict.WRONG_ANSWER, "output.values", message, **leaf_evidence(early))
    if timed := first_bad(evidence.timed):
        return say(
            Verdict.WRONG_ANSWER,
            "output.timed_values",
            "A timed call returned another result than the reference, after the untimed ones were right. "
            + values_message(timed)
            + " Results must not be kept from call to call.",
            **leaf_evidence(timed),
        )
    if again := first_bad(evidence.unrepeatable):
        return say(
            Verdict.WRONG_ANSWER,
            "output.not_repeatable",
            "The same input gave a right result and then a wrong one. "
            + values_message(again)
            + " Look for a race: a missing __syncthreads, or blocks that read what others write.",
            **leaf_evidence(again),
        )
    if audited := first_bad(evidence.audited):
        return say(
            Verdict.WRONG_ANSWER,
            "output.values",
            "A call after the timed ones returned another result than the reference. " + values_message(audited),
            **leaf_evidence(audited),
        )
    return None


def _rules(evidence: Evidence) -> Judgement | None:
    if mutated := first_bad(evidence.mutated):
        return say(
            Verdict.REJECTED,
            "input.mutated",
            f"forward changed its argument {mutated.path} ({mutated.outside} of {math.prod(mutated.shape)} elements): "
            "work on a copy.",
            **leaf_evidence(mutated),
        )
    if evidence.unsteady is not None:
        # Before anything that is said of times: none of it can be held against the submission.
        return _unsteady(evidence.unsteady)
    if evidence.output_changed:
        return say(
            Verdict.REJECTED,
            "time.outputs_changed",
            "An output of a timed call was not, when it was looked at, what it had been when the clock stopped: do all "
            "work before forward returns, on the current stream, and return memory that nothing writes to later.",
        )
    timing = evidence.timing
    outside = None if timing is None else timing.outside
    if outside is not None and not outside.confirmed:
        if outside.by_singles and not outside.ahead:
            return _single_not_confirmed(outside)  # loops say nothing
        if outside.outside_us - outside.inside_us > outside.tolerance_us or outside.single_us is None:
            return _loops_not_confirmed(outside, outside.outside_us, "", outside.tolerance_us)
        whole_us, allowed_us = outside.whole_us, outside.whole_tolerance_us
        if whole_us is not None and allowed_us is not None and whole_us - outside.inside_us > allowed_us:
            return _loops_not_confirmed(outside, whole_us, " in long loops", allowed_us)
        return _single_not_confirmed(outside)
    return None


def _loops_not_confirmed(outside: OutsideClock, outside_us: float, where: str, allowed_us: float) -> Judgement:
    """The clocks don't agree on calls in loops."""
    return say(
        Verdict.REJECTED,
        "time.not_confirmed",
        f"A call was said to take {outside.inside_us:.2f} us, and takes {outside_us:.2f} us{where} by the grader's own "
        f"clock over {outside.calls} calls; they may differ by {allowed_us:.2f} us. Do all work before forward "
        "returns, on the current stream, and leave clocks alone.",
        **outside.model_dump(mode="json"),
    )


def _single_not_confirmed(outside: OutsideClock) -> Judgement:
    """The clocks agree on calls in loops, and not on those that were alone."""
    said_us = outside.single_us
    assert said_us is not None
    if (outside.single_outside_us or 0.0) - said_us > (outside.single_outside_tolerance_us or 0.0):
        but = f"{outside.single_outside_us:.2f} us by the grader's own clock"
        allowed = outside.single_outside_tolerance_us
    elif (outside.bare_outside_us or 0.0) - said_us > (outside.bare_tolerance_us or 0.0):
        but = f"{outside.bare_outside_us:.2f} us by the grader's own clock even where caches were left as they were"
        allowed = outside.bare_tolerance_us
    else:
        but = f"{outside.inside_us:.2f} us among {outside.calls} others, by the grader's own clock as well"
        allowed = outside.single_tolerance_us
    return say(
        Verdict.REJECTED,
        "time.not_confirmed",
        f"A call was said to take {outside.single_us:.2f} us when it is alone, and takes {but}; they may differ by "
        f"{allowed:.2f} us. Do the same work in every call, when it is called, and leave clocks alone.",
        **outside.model_dump(mode="json"),
    )


def _below_floor(evidence: Evidence) -> Judgement | None:
    """A time that the device can't have reached, even at the upper end of its interval, is no time of the work."""
    timing = evidence.timing
    if timing is None or timing.floor is None:
        return None
    floor, candidate = timing.floor, timing.candidate
    limit_us, high_us = floor.limit_us, candidate.ci95_us[1]
    if limit_us is None or not high_us < limit_us:
        return None
    return say(
        Verdict.REJECTED,
        "time.below_floor",
        f"One call took {candidate.median_us:.4g} us (95 % interval up to {high_us:.4g} us), and this device needs "
        f"{limit_us:.4g} us at the very least: 0.9 of the problem's floor, bound by {floor.bound_by}. Either "
        "the work was not done in the calls that were timed, or the time is not theirs: do all of it in every call, on "
        "the caller's stream.",
        median_us=candidate.median_us,
        ci95_us=candidate.ci95_us,
        **floor.model_dump(mode="json", exclude={"us"}),
        floor_us=floor.us,
    )


def _accepted(evidence: Evidence) -> Judgement:
    timing = evidence.timing if evidence.ranking is None else evidence.ranking
    if timing is None:
        return say(Verdict.ACCEPTED, "grade.correct", "Every output matches the reference.")
    low, high = timing.speedup_ci95
    known = f"95 % interval {low:.3g} to {high:.3g}" if math.isfinite(high) else "no interval could be given"
    figures = f"{timing.speedup:.3g} times as fast as the reference ({known})"
    if evidence.ranking is not None:
        figures += f", by the {evidence.ranking.by.replace('_', ' ')} of {len(evidence.ranks)} workloads"
    match timing.comparison:
        case "same":
            message = f"Right, and as fast as the reference: {figures}."
        case "undecided":
            message = f"Right; whether it is faster is open: {figures}."
        case _:
            message = f"Right, and {figures}."
    return say(Verdict.ACCEPTED, "grade.accepted", message)


def _unsteady(seen: Steadiness) -> Judgement:
    more = f", and {len(seen.why) - 1} more" if len(seen.why) > 1 else ""
    what = f": {seen.why[0]}{more}" if seen.why else ""
    return say(
        Verdict.UNSTABLE,
        "device.unsteady",
        f"The outputs are right, and the device was not steady enough to time them, in {seen.measured_again} blocks"
        f"{what}. This is not the submission's fault: grade again when the device is cool and has nothing else to do.",
        **seen.model_dump(mode="json"),
    )


# Positional only: what a worker says may come with evidence of any name.
