"""What the audit tells a reader without deciding anything."""

from __future__ import annotations

from collections.abc import Sequence

from harness.audit.findings import KernelUse
from harness.audit.kernels import short
from harness.judge.evidence import Evidence
from harness.report import LeafReport, Warning_
from harness.workers.worker import WorkerFailure

_UNACCOUNTED = 0.2
"""Share of the confirmed time that kernels should at least have: a trace runs warm, and launches have gaps."""


def kernel_warnings(kernels: Sequence[KernelUse], evidence: Evidence) -> list[Warning_]:
    """What the kernels of a call call for: own ones that were never seen, or a sum that can't be all."""
    found = []
    names = [kernel.name for build in evidence.builds for kernel in build.kernels]
    if not any(kernel.own for kernel in kernels):
        if names:
            found.append(
                Warning_(
                    code="audit.kernels_not_launched",
                    message="The submission had kernels built, and none of them was seen in a traced call: only "
                    "libraries' kernels ran. Look for a fallback that is always taken, or for kernels that are "
                    "only for show.",
                    evidence={"built": [short(name) for name in names[:20]]},
                )
            )
        else:
            found.append(
                Warning_(
                    code="audit.only_library_kernels",
                    message="Every kernel of a traced call is a library's: the submission brings none of its own.",
                )
            )
    total = sum(kernel.time_us for kernel in kernels)
    timing = evidence.timing
    if timing is not None and total < _UNACCOUNTED * timing.candidate.median_us and not timing.candidate.host_bound:
        found.append(
            Warning_(
                code="audit.trace_incomplete",
                message=f"The kernels of a traced call take {total:.4g} us together, and "
                f"{timing.candidate.median_us:.4g} us were measured: the trace, which is the "
                "word of the submission's process, does not show all.",
                evidence={"traced_us": total, "median_us": timing.candidate.median_us},
            )
        )
    return found


def no_trace_warning(asked: float | None) -> Warning_:
    """Without a trace nothing is known of kernels."""
    need = "" if asked is None else " The problem's own_kernel_share could not be held against anything."
    return Warning_(code="audit.no_trace", message=f"No trace of the kernels of a call could be had.{need}")


def below_warning(asked: str) -> Warning_:
    return Warning_(
        code="precision.below_spec",
        message=f"The submission computes less accurately than {asked}, which the problem asks for and does not insist "
        "on; audit.precision says by how much.",
    )


def fails_warning(kind: str, failure: WorkerFailure) -> Warning_:
    return Warning_(
        code="precision.probe_failed",
        message=f"On inputs made from the problem's own ({kind}) the submission failed: {str(failure)[:300]}. The "
        "problem does not promise to give such inputs, so this decides nothing.",
        evidence={"inputs": kind},
    )


def no_room_warning(kind: str) -> Warning_:
    return Warning_(
        code="precision.no_room",
        message="While the submission lived, the device had no memory left to make inputs from the problem's own "
        f"({kind}), so its precision was not judged on them. Hold no more of it than the submission needs.",
        evidence={"inputs": kind},
    )


def values_warning(kind: str, leaf: LeafReport) -> Warning_:
    return Warning_(
        code="precision.probe_values",
        message=f"On inputs made from the problem's own ({kind}) {leaf.path} is outside the tolerance in "
        f"{leaf.outside} elements. The problem does not promise to give such inputs, so this decides nothing; look "
        "whether the submission leaves something out.",
        evidence={"inputs": kind, **leaf.model_dump(mode="json")},
    )
