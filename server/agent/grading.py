"""The process of one grading: one line of JSON in, lines of JSON out, the last of them the report or why there is none.

It is started before there is work, as `python -m server.agent.grading DEVICE SANDBOX`, and gets all ready: torch is
imported, here and in the workers, and contexts on the device are made. When its stdin closes, the agent has gone, and
it goes too; the grader's `finally`s run and end what was started.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from harness.cli.signals import Stopped, raising_stopped
from harness.cli.streams import claimed_stdout, document
from harness.events import Event, StageEnded, StageStarted
from harness.load.submission import FILE_NAME, usable_name

if TYPE_CHECKING:
    from harness.workers.prepared import PreparedWorkers


def main() -> int:
    """One grading."""
    with raising_stopped(), claimed_stdout() as out:
        try:
            with _prepared(*sys.argv[1:3]) as prepared:
                _say(out, {"ready": True})
                line = sys.stdin.readline()
                if not line:
                    return 0
                threading.Thread(target=_go_with_the_agent, daemon=True).start()
                _say(out, {"report": _grade(json.loads(line), out, prepared)})
        except Stopped:
            return 1
        except Exception as error:  # noqa: BLE001 - whatever it is, the agent has to be told
            traceback.print_exc()
            _say(out, {"error": f"{type(error).__name__}: {error}"[:1500]})
            return 1
    return 0


def _prepared(device: str, sandbox: str) -> PreparedWorkers:
    """Workers for one grading, and here what each process finds out once."""
    import harness.grading.grader  # noqa: F401 - brings torch, which takes seconds
    from harness import sandbox as sandboxes
    from harness.build.toolchain import MissingCompiler, discover
    from harness.grading.rehearsal import rehearse
    from harness.machine.device import open_device
    from harness.workers.prepared import PreparedWorkers

    with contextlib.suppress(MissingCompiler):
        discover()
    return PreparedWorkers(open_device(device), sandboxes.by_name(sandbox), once=True, rehearse=rehearse)


def _grade(work: dict[str, Any], out: TextIO, prepared: PreparedWorkers) -> str:
    from harness.grading.grader import grade

    def on_event(event: Event) -> None:
        kind = {StageStarted: "stage_started", StageEnded: "stage_ended"}.get(type(event), "progress")
        told = asdict(event)
        if "message" in told:
            told["message"] = _for_solvers(told["message"])
        _say(out, {"event": {"kind": kind, **told}})

    with tempfile.TemporaryDirectory(prefix="harness-agent-") as folder:
        # Looked at here as well: what the server sends does not become a path as it is.
        path = Path(folder) / (usable_name(work["name"]) or FILE_NAME)
        path.write_bytes(work["source"].encode())
        report = grade(
            work["problem"],
            path,
            device=work["device"],
            workload=work["workload"],
            mode=work["mode"],
            sandbox=work["sandbox"],
            prepared=prepared,
            on_event=on_event,
        )
    # Where it lay for a moment is of no use to anybody.
    info = report.submission.model_copy(update={"path": None})
    # Not pydantic's own JSON: it fails on half a surrogate pair, which a submission can print.
    return document(report.model_copy(update={"submission": info}))


def _for_solvers(message: str) -> str:
    """What is being done, without who has the device: a command line names what is others' affair."""
    before, waits, _ = message.partition(_HAS_IT)
    return before + waits


_HAS_IT = ": another grading has it"


def _say(out: TextIO, message: dict[str, Any]) -> None:
    print(json.dumps(message), file=out, flush=True)


def _go_with_the_agent() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    code = main()
    # The thread that waits on stdin would have to be waited for at exit.
    sys.stdout.flush()
    os._exit(code)
