"""What the audit's findings mean for the verdict: pure, a part of the judge."""

from __future__ import annotations

from harness.audit.findings import LeafPrecision, Precision
from harness.audit.precision import BEYOND_SUMS
from harness.judge.evidence import Evidence
from harness.judge.wording import Judgement, say
from harness.report import LeafReport, Verdict

_SHARED = {
    "input": ("output.aliases_input", "an input of the call"),
    "output": ("output.aliases_output", "another output, of the same or an earlier call"),
}
_ADVICE = (
    " Compute in {asked}, or in parts that keep its accuracy, such as three tf32 products for one whose partial sums "
    "are added up in fp32 every few hundred terms: tensor cores cut off what they add, and do not round."
)


def judge_audit(evidence: Evidence) -> Judgement | None:
    """The verdict that the audit calls for; None where it calls for none."""
    if (shared := evidence.shared) is not None:
        code, other = _SHARED[shared.other]
        return say(
            Verdict.REJECTED,
            code,
            f"{shared.path} shares memory with {other}, and the reference's does not: return memory of its own.",
            path=shared.path,
        )
    audit = evidence.audit
    if audit is None:
        return None
    if audit.precision is not None and audit.precision.below and audit.precision.policy == "reject":
        return _below_spec(audit.precision)
    share, least = audit.own_kernel_share, evidence.own_kernel_share
    if least is not None and evidence.trace_prevented:
        return say(
            Verdict.REJECTED,
            "policy.no_trace",
            f"The problem asks that kernels of the submission's own have {100 * least:.3g} % of the GPU time, and no "
            "trace of its calls could be had, while one of the reference's could: leave the profiler (CUPTI) alone.",
            least=least,
        )
    if least is not None and share is not None and share < least:
        return say(
            Verdict.REJECTED,
            "policy.own_kernel_share",
            f"Kernels of the submission's own have {100 * share:.3g} % of the GPU time of a call, and the problem asks "
            f"for {100 * least:.3g} %: do more of the work in your own kernels; audit.kernels lists what ran.",
            share=share,
            least=least,
        )
    return None


def coarse_values(evidence: Evidence, wrong: LeafReport) -> LeafPrecision | None:
    """What says that the values of `wrong`, outside the tolerance, are those of a coarser arithmetic, and no other
    mistake; None where nothing does."""
    precision = None if evidence.audit is None else evidence.audit.precision
    leaves = [] if precision is None else precision.leaves
    return next((leaf for leaf in leaves if leaf.path == wrong.path and leaf.below and leaf.resembles), None)


def outside_by_precision(evidence: Evidence, leaf: LeafPrecision, values: str) -> Judgement:
    """The verdict on such values; `values` says how wrong they are."""
    assert evidence.audit is not None
    precision = evidence.audit.precision
    assert precision is not None
    like = f"Its errors are those of {leaf.resembles} arithmetic (likeness {leaf.likeness or 0:.2f} of 1)"
    if precision.policy != "reject":
        return say(Verdict.WRONG_ANSWER, "output.values", f"{values} {like}.", **leaf.model_dump(mode="json"))
    return say(
        Verdict.REJECTED,
        "precision.below_spec",
        f"{values} {like}, and the problem asks for {precision.asked}." + _ADVICE.format(asked=precision.asked),
        **leaf.model_dump(mode="json"),
        asked=precision.asked,
    )


def _below_spec(precision: Precision) -> Judgement:
    leaf = max((leaf for leaf in precision.leaves if leaf.below), key=_telling)
    inputs = "the problem's inputs" if leaf.inputs == "own" else f"inputs made from the problem's ({leaf.inputs})"
    like = (
        f"its errors are those of {leaf.resembles} arithmetic (likeness {leaf.likeness or 0:.2f} of 1)"
        if leaf.resembles
        else f"{leaf.beyond_sums:.3g} times that of a sum in {precision.asked} that adds one term after the other"
        if leaf.beyond_sums is not None and leaf.beyond_sums > BEYOND_SUMS
        else f"its errors are {leaf.relative_size or 0:.2g} times as large as those of the next coarser arithmetic, "
        "and like none that is known"
    )
    return say(
        Verdict.REJECTED,
        "precision.below_spec",
        f"{leaf.path} is right within the tolerance, and less accurate than {precision.asked}: on {inputs} its error "
        f"against float64 is {leaf.ratio:.3g} times the reference's own, and {like}."
        + _ADVICE.format(asked=precision.asked),
        **leaf.model_dump(mode="json"),
        asked=precision.asked,
    )


def _telling(leaf: LeafPrecision) -> tuple[bool, bool, float]:
    """The problem's own inputs first, then what is most alike."""
    return leaf.resembles is not None, leaf.inputs == "own", leaf.likeness or 0.0
