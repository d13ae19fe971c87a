"""Rows of the table about what the audit found."""

from __future__ import annotations

from harness.audit.findings import Audit, KernelUse, Precision
from harness.cli import text
from harness.cli.sections import Row, row

MAX_KERNELS = 4


def audit(found: Audit, ascii_only: bool) -> list[Row]:
    """Precision, repeatability, and whose kernels ran."""
    rows = []
    if found.precision is not None and found.precision.leaves:
        rows.append(_precision(found.precision))
    if found.repeat is not None:
        same = (
            "all the same"
            if found.repeat.repeatable
            else f"apart by up to {found.repeat.max_difference:.1g} of the RMS"
        )
        rows.append(row("repeated", f"{found.repeat.calls} calls on one input, {same}"))
    if found.own_kernel_share is not None:
        rows.append(row("own work", f"{text.share(found.own_kernel_share)} of the GPU's time, as its process says"))
    total_us = sum(kernel.time_us for kernel in found.kernels)
    rows += [_kernel(kernel, total_us, ascii_only) for kernel in found.kernels[:MAX_KERNELS]]
    if len(found.kernels) > MAX_KERNELS:
        rows.append(row("", f"... and {len(found.kernels) - MAX_KERNELS} more kernels, in --json"))
    return rows


def _precision(found: Precision) -> Row:
    most = max(found.leaves, key=lambda leaf: (leaf.below, leaf.ratio))
    words = (
        f"error up to {most.ratio:.2g} times the reference's own (on {most.inputs} inputs); asked for: {found.asked}"
    )
    if not found.below:
        return row("precision", words)
    return row("precision", f"{words}, and this is {most.resembles or 'less'}", "yellow")


def _kernel(kernel: KernelUse, total_us: float, ascii_only: bool) -> Row:
    (duration,) = text.durations(kernel.time_us, ascii_only=ascii_only)
    share = text.share(kernel.time_us / total_us) if total_us > 0 else "0 %"
    whose = "own" if kernel.own else kernel.origin
    return row("", f"{duration} ({share}), {kernel.calls:g} x {text.one_line(kernel.name, 60)}, {whose}")
