"""The command line: which commands there are, and that every way out has an exit code.

Only the command that is asked for is read, and it imports torch and the grader when it runs: all answer at once.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from harness.cli.signals import Stopped, exit_code_of, raising_stopped, say
from harness.version import VERSION

_COMMANDS = {
    "run": "grading.run",
    "check": "grading.check",
    "compile": "grading.compile_",
    "sanitize": "sanitize.sanitize",
    "profile": "grading.profile",
    "verify": "verify.verify",
    "batch": "batch.batch",
    "report": "report.report",
    "problems": "listing.problems",
    "device": "devices.device",
    "sandbox": "sandboxes.sandbox",
    "schema": "listing.schema",
    "selftest": "selftest.selftest",
    "new": "new.app",
    "cache": "cache.app",
    "mcp": "mcp.mcp",
    "serve": "server.serve",
    "agent": "server.agent",
    "keys": "server.keys",
    "config": "config.app",
    "submit": "remote.submit",
    "status": "remote.status",
    "leaderboard": "remote.leaderboard",
}
"""Where each is, in this folder, in the order in which the help lists them."""

_GRADING = ("run", "check", "compile", "profile")
"""Commands that import torch to grade here, and start nothing that outlives them."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(VERSION)
        raise typer.Exit(0)


def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options before a command."""


def _app(argv: Sequence[str]) -> typer.Typer:
    """The command that `argv` names, or all of them where it names none: for the help, or to tell which was meant."""
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
    app.callback()(_options)
    named = argv[0] if argv and argv[0] in _COMMANDS else None
    for name, place in _COMMANDS.items():
        if named in (None, name):
            module, _, attribute = place.partition(".")
            found = getattr(importlib.import_module(f"harness.cli.{module}"), attribute)
            if isinstance(found, typer.Typer):
                app.add_typer(found, name=name)
            else:
                app.command(name)(found)
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        with raising_stopped():
            _app(arguments)(args=arguments, prog_name="harness")
    except SystemExit as end:
        return _code(end)
    except Stopped as stop:
        say("interrupted")
        return exit_code_of(stop)
    return 0


def command() -> NoReturn:
    """The program: `main`, and after a grading the end of the process at once.

    An interpreter with torch in it needs most of a second to take itself apart, for nothing: workers have ended, and
    files are closed, by the time `main` returns.
    """
    code = main()
    if len(sys.argv) > 1 and sys.argv[1] in _GRADING:
        # What can't be written, or is closed, is told by the usual end.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)


def _code(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    say(str(end.code))
    return 2
