"""`harness problems` and `harness schema`: what there is, without grading anything."""

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

    from harness.load.problem import Problem

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
    from harness.formats import is_problem
    from harness.load.problem import Problem, ProblemError

    if not folder.is_dir():
        raise WrongUse(f"there is no folder {folder}; name the one that holds the problem folders.")
    paths = [folder] if is_problem(folder) else [path for path in sorted(folder.iterdir()) if path.is_dir()]
    paths = [path for path in paths if is_problem(path)]
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
        "format": loaded.format,
        "notes": list(loaded.notes),
        "title": loaded.spec.title,
        "precision": loaded.spec.precision,
        "default_workload": loaded.spec.default_workload.model_dump(),
        "ranking": loaded.spec.ranking.model_dump(mode="json"),
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
    """What a workload is for: ranking with others, which kind of device it is graded on alone unless another is named,
    or checking."""
    defaults = problem.spec.default_workload
    if name in problem.spec.ranking.workloads:
        return "ranking"
    kinds = [kind for kind, chosen in (("cuda", defaults.cuda), ("cpu", defaults.cpu)) if chosen == name]
    if kinds:
        return " and ".join(kinds)
    return "timing" if problem.spec.workloads[name].timed else "checking"


@guarded
def schema() -> int:
    """Print the JSON Schema of a report."""
    with claimed_stdout() as stdout:
        from harness.report import Report

        print(json.dumps(Report.model_json_schema(mode="serialization"), indent=2), file=stdout)
    return 0
