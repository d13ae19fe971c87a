"""From what went wrong to an exit code: 2 for wrong use, 3 for our own failures, 128 + N for a signal."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import ParamSpec

import typer

from harness.cli.signals import exit_code_of, say
from harness.cli.streams import WrongUse

P = ParamSpec("P")

WRONG_USE = 2
JUDGE_ERROR = 3


def guarded(command: Callable[P, int]) -> Callable[P, None]:
    """Make a command of a function that returns an exit code: whatever it raises ends in a sentence and a code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except typer.Exit:
            raise
        except KeyboardInterrupt as stop:
            say("interrupted")
            code = exit_code_of(stop)
        except BrokenPipeError:
            # Whoever read our output has gone. Python would complain once more when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            code = 128 + 13
        except Exception as error:  # noqa: BLE001 - the last place that can turn it into a sentence and a code
            code = _explained(error)
        raise typer.Exit(code)

    return run


def _explained(error: Exception) -> int:
    if _is_wrong_use(error):
        say(str(error))
        return WRONG_USE
    traceback.print_exception(error, file=sys.stderr)
    say(
        f"the grader itself failed ({type(error).__name__}); "
        "this is not the submission's fault: please report it with the traceback above."
    )
    return JUDGE_ERROR


def _is_wrong_use(error: Exception) -> bool:
    if isinstance(error, WrongUse):
        return True
    # Imported only now: they bring pydantic, which `harness --help` can do without.
    from harness.clock.plot import PlotError
    from harness.load.problem import ProblemError
    from harness.load.submission import SubmissionError
    from harness.machine.device import DeviceError
    from harness.machine.locks import DeviceBusy
    from harness.sandbox.base import SandboxError
    from harness.sanitizing.tool import SanitizerMissing
    from harness.scaffold.write import ScaffoldError
    from harness.settings import SettingsError

    named = (ProblemError, DeviceError, DeviceBusy, SandboxError, ScaffoldError, SettingsError, SubmissionError)
    return isinstance(error, (*named, PlotError, SanitizerMissing))
