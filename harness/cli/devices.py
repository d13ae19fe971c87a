"""`harness device`: what this machine can grade on, what confines a kernel there, and how fast it can be at most."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import text
from harness.cli.errors import guarded
from harness.cli.listing import AsJson
from harness.cli.signals import say
from harness.cli.streams import claimed_stdout, console

if TYPE_CHECKING:
    from rich.table import Table

    from harness.clock.peaks import Peaks
    from harness.machine.survey import Compilers, SandboxState
    from harness.report import DeviceInfo

_RATES = (("fp64", "fp64_flops"), ("fp32", "fp32_flops"), ("tf32", "tf32_flops"), ("fp16, bf16", "fp16_flops"))


@guarded
def device(
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the peaks of every device now, also those that are known.")
    ] = False,
    ray: Annotated[
        bool, typer.Option("--ray", help="Only print what ray start --resources takes, for a cluster that grades.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show the devices that can be graded on, their limits and peaks, and what confines a submission here."""
    with claimed_stdout() as stdout:
        if ray:
            from harness.batch.ray.facts import resources
            from harness.machine.device import list_devices

            print(resources(list_devices()), file=stdout)
            return 0
        from harness.machine.survey import survey

        found = survey(
            measure=measure, on_wait=lambda each: say(f"waiting for {each.torch_name}, which a grading is using")
        )
        if as_json:
            print(json.dumps(found.model_dump(mode="json", by_alias=True), indent=2), file=stdout)
        else:
            rich = console(stdout)
            for info in found.devices:
                rich.print(_device_table(info, found.peaks_of(info), is_auto=found.is_auto(info)))
            rich.print(_compiler_table(found.compilers))
            rich.print(_sandbox_table(found.sandboxes))
    return 0


def _device_table(info: DeviceInfo, peaks: Peaks | None, is_auto: bool) -> Table:
    from harness.cli.sections import row

    rows = [row("name", text.one_line(info.name))]
    if is_auto:
        rows[0].words.append("  (what --device auto means here)", style="dim")
    table = _plain_table(info.torch_name)
    for label, value in figures(info, peaks):
        rows.append(row(label, text.one_line(value, 400)))
    for item in rows:
        table.add_row(item.label, item.words)
    return table


def _sandbox_table(sandboxes: list[SandboxState]) -> Table:
    """The first that can be used is what a grading takes unless another is named."""
    table = _plain_table("sandboxes")
    for each in sandboxes:
        table.add_row(each.name, text.one_line(each.unavailable, 400) if each.unavailable else "can be used")
    return table


def _plain_table(title: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def figures(info: DeviceInfo, peaks: Peaks | None) -> list[tuple[str, str]]:
    """All that is told of a device: what it has, its limits, its peaks, its software."""
    return [*_figures(info), *_limits(info), *_peaks(peaks), *_surroundings(info)]


def _figures(info: DeviceInfo) -> list[tuple[str, str]]:
    """What is there, in the order in which a kernel writer asks."""
    wanted: list[tuple[str, object]] = [
        ("architecture", info.compute_capability and f"compute capability {info.compute_capability}"),
        ("SMs", info.sms),
        ("cores", info.cores),
        ("memory", info.memory_bytes and text.size(info.memory_bytes)),
        ("memory bus", info.memory_bus_bits and f"{text.count(info.memory_bus_bits)} bits"),
        ("L2 cache" if info.kind == "cuda" else "last cache", info.l2_bytes and text.size(info.l2_bytes)),
        ("threads", info.max_threads_per_sm and _residents(info)),
        ("SM clock", info.sm_clock_max_mhz and f"at most {info.sm_clock_max_mhz} MHz"),
        ("memory clock", info.memory_clock_max_mhz and f"at most {info.memory_clock_max_mhz} MHz"),
    ]
    return [(label, str(value)) for label, value in wanted if value]


def _residents(info: DeviceInfo) -> str:
    """What an SM holds at once: what occupancy is a share of."""
    from harness.clock.architectures import blocks_per_sm

    threads = info.max_threads_per_sm or 0
    words = f"{text.count(threads)} an SM at once"
    if info.warp_size:
        words += f", {threads // info.warp_size} warps of {info.warp_size}"
    blocks = blocks_per_sm(info.compute_capability)
    return words if blocks is None else f"{words}, in {blocks} blocks at most"


def _limits(info: DeviceInfo) -> list[tuple[str, str]]:
    """What refuses or slows a launch and is easily forgotten; every GPU that torch supports has the last three."""
    if info.kind != "cuda":
        return []
    rows = []
    default, most = info.shared_memory_per_block_bytes, info.shared_memory_per_block_optin_bytes
    if default is not None:
        shared = f"{text.size(default)} a block"
        if most is not None and most > default:
            shared += (
                f", unless cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) raises it, "
                f"to {text.size(most)} at most"
            )
        if info.shared_memory_per_sm_bytes is not None:
            shared += f"; {text.size(info.shared_memory_per_sm_bytes)} an SM"
            taken = info.shared_memory_per_sm_bytes - (most or info.shared_memory_per_sm_bytes)
            # Whatever the largest block leaves is what the system keeps for each block.
            shared += f", of which each block takes {text.size(taken)} besides its own" if taken > 0 else ""
        rows.append(("shared", shared))
    registers, threads = info.registers_per_sm or 65536, info.max_threads_per_block or 1024
    return [
        *rows,
        ("registers", f"{text.count(registers)} an SM; 255 a thread, what needs more is spilled to memory"),
        (
            "block",
            f"{text.count(threads)} threads; with so many, {registers // threads} registers a thread, or the launch "
            "fails",
        ),
        ("grid", "2,147,483,647 blocks in x, 65,535 in y and in z; none of them zero"),
    ]


def _peaks(peaks: Peaks | None) -> list[tuple[str, str]]:
    """What a floor is made from, with what was reached beside it."""
    if peaks is None:
        return [("peaks", "not measured yet: harness device --measure")]
    rows = [("bandwidth", _peak(peaks, "bytes_per_s", peaks.bytes_per_s, "B", "a copy"))]
    rows += [
        (label, _peak(peaks, name, getattr(peaks, name), "FLOP", "a product"))
        for label, name in _RATES
        if peaks.kind == "cuda" or name != "tf32_flops"
    ]
    rows.append(("special", _peak(peaks, "special_ops", peaks.special_ops, "op", "exp")))
    rows.append(("launch", f"{peaks.launch_us:.2g} us of host time for one small operation through torch"))
    if peaks.kind == "cuda":
        beside = "a kernel" if peaks.null_kernel_us is not None else "nothing"
        offset = f"{peaks.event_offset_us:.3g} +- {peaks.event_offset_half_us:.1g} us"
        rows.append(("events", f"read {offset} beside {beside} between them"))
    rows.append(("measured", f"{peaks.measured_at:%Y-%m-%d %H:%M} UTC"))
    return rows


def _peak(peaks: Peaks, name: str, figure: float | None, unit: str, what: str) -> str:
    reached = peaks.reached.get(name)
    beside = "" if reached is None else f"{what} reached {text.rate(reached, unit)}"
    if figure is None:
        return f"no bound is known for this architecture; {beside}" if beside else "not known"
    if peaks.source.get(name) == "measured":
        return f"{text.rate(figure, unit)}, measured"
    origin = "0.9 of the pins" if name == "bytes_per_s" else "units x clock"
    return f"{text.rate(figure, unit)}, {origin}{'; ' + beside if beside else ''}"


def _driver(version: str, cuda: str | None) -> str:
    return version if cuda is None else f"{version}, runs programs of CUDA {cuda} and older"


def _compiler_table(compilers: Compilers) -> Table:
    table = _plain_table("compilers")
    for name, version in compilers.model_dump(by_alias=True).items():
        if version is not None:
            table.add_row(name, text.one_line(version, 400))
    return table


def _surroundings(info: DeviceInfo) -> list[tuple[str, str]]:
    wanted = [
        ("uuid", info.uuid),
        ("driver", info.driver and _driver(info.driver, info.driver_cuda)),
        ("software", f"torch {info.torch}, CUDA {info.cuda or '-'}, Python {info.python}"),
        ("system", info.platform),
    ]
    return [(label, value) for label, value in wanted if value]
