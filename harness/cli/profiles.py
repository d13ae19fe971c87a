"""Sections of the table about a profile: the call, what to try, kernels, what else the device and the host did."""

from __future__ import annotations

from rich.text import Text

from harness.audit.kernels import short
from harness.cli import text
from harness.cli.sections import Row, row
from harness.profiling.bounds import used
from harness.profiling.result import Counters, Finding, KernelProfile, Profile

MAX_KERNELS = 5
MAX_LINES = 5
_CONFLICTS = 0.01


def sections_of(profile: Profile, ascii_only: bool) -> list[list[Row]]:
    """All of them, in order."""
    return [
        _call(profile, ascii_only),
        [_finding(found) for found in profile.findings] or [row("to try", "no rule found anything that costs time")],
        _kernels(profile, ascii_only),
        _rest(profile, ascii_only),
        _sources(profile),
    ]


def _call(profile: Profile, ascii_only: bool) -> list[Row]:
    call = profile.call
    value, low, high = text.durations(call.us, *call.range_us, ascii_only=ascii_only)
    host = ", host side included" if call.host_bound else ""
    words = Text.assemble((f"{value:<11}", "bold"), f"  {low} to {high} in {call.calls} calls{host}")
    rows = [Row("time", words)]
    if call.floor_us is not None and call.us > 0:
        (floor,) = text.durations(call.floor_us, ascii_only=ascii_only)
        rows.append(row("floor", f"{floor:<11}  {text.share(float(f'{call.floor_us / call.us:.2g}'))} of it reached"))
    if profile.bound is not None:
        rows.append(Row("bound by", Text.assemble((profile.bound, "bold"), f": {text.one_line(profile.bound_why)}")))
    elif profile.bound_why:
        rows.append(row("bound by", text.one_line(profile.bound_why), "dim"))
    if (traffic := profile.traffic) is not None:
        rows.append(
            row(
                "traffic",
                f"{_bytes(traffic.dram_bytes)} through device memory, {traffic.factor:.3g} times the "
                f"{_bytes(traffic.needed_bytes)} needed; {traffic.asked_factor:.3g} times asked of L1 in sectors",
            )
        )
    return rows


def _finding(found: Finding) -> Row:
    label = "to try" if found.gain is None else f"gain {_percent(found.gain)}"
    words = Text(text.one_line(found.message, 500))
    words.append("\n" + text.one_line(found.advice, 500), style="cyan")
    return Row(label, words)


def _kernels(profile: Profile, ascii_only: bool) -> list[Row]:
    rows = [found for kernel in profile.kernels[:MAX_KERNELS] for found in _kernel(kernel, ascii_only)]
    if len(profile.kernels) > MAX_KERNELS:
        rows.append(row("", f"... and {len(profile.kernels) - MAX_KERNELS} more kernels, in --json"))
    for number, operator in enumerate(profile.operators[:MAX_LINES]):
        (took,) = text.durations(operator.self_us, ascii_only=ascii_only)
        words = f"{took} ({_percent(operator.share)}), {operator.count} x {text.one_line(operator.name, 80)}"
        rows.append(row("operators" if number == 0 else "", words))
    if len(profile.operators) > MAX_LINES:
        rows.append(row("", f"... and {len(profile.operators) - MAX_LINES} more operators, in --json"))
    return rows


def _kernel(kernel: KernelProfile, ascii_only: bool) -> list[Row]:
    (took,) = text.durations(kernel.us, ascii_only=ascii_only)
    whose = "own" if kernel.own else kernel.origin
    head = f"{took} ({_percent(kernel.share)}), {kernel.launches} x {text.one_line(short(kernel.name))}, {whose}"
    launch = (
        f"{_sizes(kernel.grid)} blocks of {_sizes(kernel.block)}, {kernel.registers} registers, "
        f"{text.size(kernel.shared_bytes)} shared"
    )
    if (fits := kernel.occupancy) is not None:
        launch += (
            f"; {fits.warps_per_sm} warps fit an SM ({_percent(fits.share)}, limited by {', '.join(fits.limited_by)})"
        )
    if kernel.spilled_bytes:
        launch += f"; {text.size(kernel.spilled_bytes)} spilled"
    rows = [row("kernel", head, "bold"), row("", launch)]
    if kernel.counters is not None:
        rows.append(row("", _counters(kernel, kernel.counters)))
    return rows


def _counters(kernel: KernelProfile, counters: Counters) -> str:
    parts = []
    if (both := used(counters)) is not None:
        parts.append(f"{kernel.bound} bound: memory {_percent(both[0])}, SMs {_percent(both[1])} of peak")
    if counters.dram_bytes_per_s is not None:
        share = "" if counters.share_of_peak is None else f", {_percent(counters.share_of_peak)} of peak"
        parts.append(f"{text.rate(counters.dram_bytes_per_s, 'B')}{share}")
    if counters.sector_factor is not None:
        parts.append(f"sectors {counters.sector_factor:.3g} times those needed")
    if counters.occupancy is not None:
        parts.append(f"{_percent(counters.occupancy)} occupied")
    conflicts = (counters.bank_conflicts or 0.0) / (counters.shared_wavefronts or 1.0)
    if conflicts >= _CONFLICTS:
        parts.append(f"{_percent(conflicts)} of shared memory's passes are bank conflicts")
    if counters.tensor_use:
        parts.append(f"tensor cores {_percent(counters.tensor_use)}")
    return "; ".join(parts)


def _rest(profile: Profile, ascii_only: bool) -> list[Row]:
    rows = []
    if (device := profile.device) is not None:
        busy, gap = (text.durations(us, ascii_only=ascii_only)[0] for us in (device.busy_us, device.gap_us))
        streams = "" if device.streams == 1 else f" on {device.streams} streams"
        rows.append(row("device", f"busy {busy}, idle {gap} between {device.launches} launches{streams}"))
        for gap_ in device.gaps[:2]:
            (took,) = text.durations(gap_.us, ascii_only=ascii_only)
            rows.append(row("", f"idle {took} before {text.one_line(short(gap_.before))}", "dim"))
    for copy in profile.copies[:MAX_LINES]:
        (took,) = text.durations(copy.us, ascii_only=ascii_only)
        rows.append(row("copy", f"{took}, {copy.count} x {text.one_line(copy.name, 60)}, {text.size(copy.bytes)}"))
    (returned,) = text.durations(profile.call.host_us, ascii_only=ascii_only)
    calls = ", ".join(
        f"{call.count} x {text.one_line(call.name, 40)} {text.durations(call.us, ascii_only=ascii_only)[0]}"
        for call in profile.host[:MAX_LINES]
    )
    rows.append(row("host", f"forward returns after {returned}{'; ' if calls else ''}{calls}"))
    if profile.cores_used is not None:
        rows.append(row("cores", f"{profile.cores_used:.2g} busy on average"))
    return rows


def _sources(profile: Profile) -> list[Row]:
    counters = profile.counters
    rows = []
    if counters.read:
        words = f"{text.one_line(counters.tool or '', 60)}, launches: {counters.launches}"
        rows.append(row("counters", f"{words}. {text.one_line(counters.why_not, 500)}".rstrip(" .") + "."))
    elif counters.why_not:
        rows.append(row("counters", text.one_line(counters.why_not, 700), "yellow"))
    rows += [row("left out", text.one_line(left, 300), "dim") for left in profile.left_out]
    return rows


def _sizes(sizes: tuple[int, int, int]) -> str:
    """`8192`, `64 x 32`."""
    last = max((place for place, size in enumerate(sizes) if size != 1), default=0)
    return " x ".join(text.count(size) for size in sizes[: last + 1])


def _percent(share: float) -> str:
    return text.share(float(f"{share:.2g}"))


def _bytes(value: float) -> str:
    return text.rate(value, "B").removesuffix("/s")
