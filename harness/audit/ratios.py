"""The precision ratios beside the other figures of a leaf."""

from __future__ import annotations

from collections.abc import Sequence

from harness.audit.findings import Audit
from harness.audit.probes import OWN
from harness.report import LeafReport


def with_ratios(leaves: Sequence[LeafReport], audit: Audit | None) -> list[LeafReport]:
    """The leaves, each with its ratio on the problem's own inputs where that is known."""
    precision = None if audit is None else audit.precision
    ratios = {leaf.path: leaf.ratio for leaf in precision.leaves if leaf.inputs == OWN} if precision else {}
    return [leaf.model_copy(update={"precision_ratio": ratios.get(leaf.path)}) for leaf in leaves]
