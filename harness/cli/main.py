"""The command line: which commands there are, and that every way out has an exit code.

Commands import torch and the grader only when they run, so that `harness --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from harness.cli import (
    batch,
    cache,
    config,
    devices,
    grading,
    listing,
    mcp,
    new,
    remote,
    report,
    sandboxes,
    sanitize,
    selftest,
    server,
    verify,
)
from harness.cli.signals import Stopped, exit_code_of, raising_stopped, say
from harness.version import VERSION

app = typer.Typer(
    name="harness",
    help="Grade GPU kernels: is a submission right, how fast is it, and how sure is that.",
    epilog="Exit codes: 0 accepted, 1 graded and not accepted, 2 wrong use, 3 the grader's own failure, "
    "130 ended by Ctrl-C.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(VERSION)
        raise typer.Exit(0)


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options before a command."""


app.command()(grading.run)
app.command()(grading.check)
app.command("compile")(grading.compile_)
app.command()(sanitize.sanitize)
app.command()(grading.profile)
app.command()(verify.verify)
app.command()(batch.batch)
app.command()(report.report)
app.command()(listing.problems)
app.command()(devices.device)
app.command()(sandboxes.sandbox)
app.command()(listing.schema)
app.command()(selftest.selftest)
app.add_typer(new.app, name="new")
app.add_typer(cache.app, name="cache")
app.command()(mcp.mcp)
app.command()(server.serve)
app.command()(server.agent)
app.add_typer(server.keys, name="keys")
app.add_typer(config.app, name="config")
app.command()(remote.submit)
app.command()(remote.status)
app.command()(remote.leaderboard)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        with raising_stopped():
            app(args=None if argv is None else list(argv), prog_name="harness")
    except SystemExit as end:
        return _code(end)
    except Stopped as stop:
        say("interrupted")
        return exit_code_of(stop)
    return 0


def _code(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    say(str(end.code))
    return 2
