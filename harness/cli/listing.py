"""`harness problems`, `harness device` and `harness schema`: what there is, without grading anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import text
from harness.cli.errors import guarded
from harness.cli.streams import WrongUse, claimed_stdout, console

if TYPE_CHECKING:
    from rich.table import Table

    from harness.device import Device
    from harness.problem import Problem

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of a table.")]


@guarded
def problems(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to look.")] = Path("problems"),
    as_json: AsJson = False,
) -> int:
    """List the problem folders with their workloads."""
    found = list(_problem_folders(folder))
    with claimed_stdout() as stdout:
        if as_json:
            print(json.dumps([_problem_data(path, loaded) for path, loaded in found], indent=2), file=stdout)
        else:
            console(stdout).print(_problem_table(found))
    return 0 if all(not isinstance(loaded, str) for _, loaded in found) else 1


def _problem_folders(folder: Path) -> Iterator[tuple[Path, Problem | str]]:
    """Each problem, or the sentence that says why it can't be loaded: one broken folder must not hide the others."""
    from harness.problem import Problem, ProblemError

    if not folder.is_dir():
        raise WrongUse(f"there is no folder {folder}; name the one that holds the problem folders.")
    paths = [folder] if (folder / "problem.toml").is_file() else sorted(folder.iterdir())
    paths = [path for path in paths if (path / "problem.toml").is_file()]
    if not paths:
        raise WrongUse(f"no problem is in {folder}: none of its folders has a problem.toml; name another folder.")
    for path in paths:
        try:
            yield path, Problem.load(path)
        except ProblemError as error:
            yield path, str(error)


def _problem_data(path: Path, loaded: Problem | str) -> dict[str, Any]:
    if isinstance(loaded, str):
        return {"path": str(path), "error": loaded}
    return {
        "path": str(path),
        "id": loaded.id,
        "version": loaded.version,
        "title": loaded.spec.title,
        "precision": loaded.spec.precision,
        "default_workload": loaded.spec.default_workload.model_dump(),
        "workloads": {name: workload.model_dump(mode="json") for name, workload in loaded.spec.workloads.items()},
    }


def _problem_table(found: list[tuple[Path, Problem | str]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("problem", overflow="fold")
    table.add_column("workload", overflow="fold")
    table.add_column("sizes", overflow="fold")
    table.add_column("for", no_wrap=True)
    for path, loaded in found:
        if isinstance(loaded, str):
            name = Text(text.one_line(path.name), style="bold red")
            table.add_row(name, Text("cannot be loaded"), Text(text.clean(loaded)))
            continue
        name = Text(loaded.id, style="bold")
        if loaded.spec.title:
            name.append("\n" + text.one_line(loaded.spec.title), style="dim not bold")
        rows = list(loaded.spec.workloads.items())
        names, sizes, uses = [], [], []
        for workload_name, workload in rows:
            names.append(workload_name)
            sizes.append(text.one_line(", ".join(f"{key}={value}" for key, value in workload.args.items()), 120) or "-")
            uses.append(_use(loaded, workload_name))
        for index in range(len(rows)):
            table.add_row(name if index == 0 else Text(""), Text(names[index]), Text(sizes[index]), Text(uses[index]))
        table.add_section()
    return table


def _use(problem: Problem, name: str) -> str:
    """What a workload is for: which kind of device it is graded on unless another is named, or checking."""
    defaults = problem.spec.default_workload
    kinds = [kind for kind, chosen in (("cuda", defaults.cuda), ("cpu", defaults.cpu)) if chosen == name]
    if kinds:
        return " and ".join(kinds)
    return "timing" if problem.spec.workloads[name].timed else "checking"


@guarded
def device(as_json: AsJson = False) -> int:
    """Show the devices that can be graded on, and what confines a submission here."""
    with claimed_stdout() as stdout:
        from harness.device import list_devices, open_device
        from harness.sandbox import SANDBOXES

        devices, auto = list_devices(), open_device("auto")
        sandboxes = {name: kind.unavailable() for name, kind in SANDBOXES.items()}
        if as_json:
            document = {
                "auto": auto.torch_name,
                "devices": [found.info.model_dump(mode="json") for found in devices],
                "sandboxes": [{"name": name, "unavailable": why} for name, why in sandboxes.items()],
            }
            print(json.dumps(document, indent=2), file=stdout)
        else:
            rich = console(stdout)
            for found in devices:
                rich.print(_device_table(found, is_auto=found.torch_name == auto.torch_name))
            rich.print(_sandbox_table(sandboxes))
    return 0


def _device_table(found: Device, is_auto: bool) -> Table:
    from harness.cli.sections import row

    info = found.info
    rows = [row("name", text.one_line(info.name))]
    if is_auto:
        rows[0].words.append("  (what --device auto means here)", style="dim")
    for label, value in _figures(found):
        rows.append(row(label, value))
    table = _plain_table(found.torch_name)
    for item in rows:
        table.add_row(item.label, item.words)
    return table


def _sandbox_table(sandboxes: dict[str, str | None]) -> Table:
    """The first that can be used is what a grading takes unless another is named."""
    table = _plain_table("sandboxes")
    for name, why_not in sandboxes.items():
        table.add_row(name, text.one_line(why_not, 400) if why_not else "can be used")
    return table


def _plain_table(title: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _figures(found: Device) -> list[tuple[str, str]]:
    """What is known, in the order in which a kernel writer asks."""
    info = found.info
    default, most = info.shared_memory_per_block_bytes, info.shared_memory_per_block_optin_bytes
    shared = None
    if default is not None:
        shared = f"{text.size(default)} a block"
        if most is not None and most > default:
            shared += f"; up to {text.size(most)} after cudaFuncSetAttribute(MaxDynamicSharedMemorySize)"
        if info.shared_memory_per_sm_bytes is not None:
            shared += f"; {text.size(info.shared_memory_per_sm_bytes)} an SM"
    wanted: list[tuple[str, object]] = [
        ("architecture", found.arch and f"compute capability {found.arch}"),
        ("SMs", info.sms),
        ("cores", info.cores),
        ("memory", info.memory_bytes and text.size(info.memory_bytes)),
        ("L2 cache" if found.kind == "cuda" else "last cache", info.l2_bytes and text.size(info.l2_bytes)),
        ("shared", shared),
        ("registers", info.registers_per_sm and f"{text.count(info.registers_per_sm)} an SM"),
        ("threads", info.max_threads_per_sm and f"{text.count(info.max_threads_per_sm)} an SM"),
        ("SM clock", info.sm_clock_max_mhz and f"at most {info.sm_clock_max_mhz} MHz"),
        ("memory clock", info.memory_clock_max_mhz and f"at most {info.memory_clock_max_mhz} MHz"),
        ("uuid", info.uuid),
        ("driver", info.driver),
        ("software", f"torch {info.torch}, CUDA {info.cuda or '-'}, Python {info.python}"),
        ("system", info.platform),
    ]
    return [(label, text.one_line(str(value))) for label, value in wanted if value is not None]


@guarded
def schema() -> int:
    """Print the JSON Schema of a report."""
    with claimed_stdout() as stdout:
        from harness.report import Report

        print(json.dumps(Report.model_json_schema(mode="serialization"), indent=2), file=stdout)
    return 0
