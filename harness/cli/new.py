"""`harness new`: first files of a problem and of a submission."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli.arguments import check_problem
from harness.cli.errors import guarded
from harness.cli.grading import Problem
from harness.cli.streams import claimed_stdout

app = typer.Typer(help="Write the first files of a problem or a submission.", no_args_is_help=True)

Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]


@app.command("problem")
@guarded
def new_problem(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the problem is called: its folder's name.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where its folder goes.")] = Path("problems"),
    force: Force = False,
) -> int:
    """Write a problem that is complete, to be changed into another."""
    with claimed_stdout() as stdout:
        from harness.scaffold.write import new_problem as write

        for path in write(name, folder, force=force):
            print(path, file=stdout)
        print(f"next: harness verify {folder / name}", file=stdout)
    return 0


@app.command("submission")
@guarded
def new_submission(
    problem: Problem,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The Python file to write.")],
    device: Annotated[
        str, typer.Option(metavar="auto|cpu|cuda", help="Whether its kernel is in C++ or CUDA; auto: CUDA with a GPU.")
    ] = "auto",
    force: Force = False,
) -> int:
    """Write a submission that is right, with a place for a kernel."""
    problem = check_problem(problem)
    with claimed_stdout() as stdout:
        from harness.scaffold.write import new_submission as write

        kind = _kind(device)
        print(write(problem, file, kind=kind, force=force), file=stdout)
        print(f"next: harness check {problem} {file} --device {kind}", file=stdout)
    return 0


def _kind(device: str) -> Literal["cpu", "cuda"]:
    """A kernel can be written for a GPU that this machine doesn't have."""
    if device == "cpu":
        return "cpu"
    if device == "cuda":
        return "cuda"
    from harness.machine.device import open_device

    return open_device(device).kind
