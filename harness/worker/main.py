"""The worker's loop: take an order, carry it out with the submission, answer.

    import -> construct -> load_state -> (put -> call -> get -> drop)* -> exit

Once a submission is imported this process belongs to it, this file included. So an answer given here is a claim, and
the grader treats it as one; what this file owes is to be honest and exact for submissions that are.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from harness.wire.frames import PROTOCOL, Channel, Closed, WireError


def main(fd: int) -> None:
    """Serve the grader on the descriptor `fd` until it says `exit` or is gone."""
    channel = Channel(socket.socket(fileno=fd))
    import torch

    with contextlib.suppress(ImportError):  # before a submission's own files could be taken for it
        import cuda.bindings.driver  # noqa: F401

    from harness.worker.extensions import install
    from harness.worker.failure import Failure, describe_failure
    from harness.worker.runner import Runner

    install(channel)
    runner = Runner(channel)
    orders: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        "touch": runner.touch,
        "open": runner.open_device,
        "look": runner.look,
        "import": runner.import_submission,
        "construct": runner.construct,
        "window": runner.take_window,
        "page": runner.take_page,
        "put": runner.put,
        "fill": runner.fill,
        "load_state": runner.load_state,
        "call": runner.call,
        "time": runner.time,
        "times": runner.times,
        "trace": runner.trace,
        "timeline": runner.timeline,
        "counted": runner.counted,
        "scribble": runner.scribble,
        "get": runner.get,
        "drain": runner.drain,
        "drop": runner.drop,
    }
    channel.send({"type": "hello", "protocol": PROTOCOL, "torch": torch.__version__, "python": sys.version.split()[0]})
    while True:
        try:
            order = channel.receive(take_fds=True)
        except WireError:
            return
        if order["type"] == "exit":
            # Without clean-up: exit hooks and destructors are the submission's, and nobody waits for their opinion.
            os._exit(0)
        runner.ticket = order["ticket"]
        try:
            answer = orders[order["type"]](order)
        except Failure as failure:
            answer = failure.to_json()
        except BaseException as error:  # noqa: BLE001 - whatever the submission raises is an answer too
            answer = describe_failure(error, runner.path)
        answer["ticket"] = runner.ticket
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the submission may have closed or replaced it
                stream.flush()
        try:
            channel.send(answer)
        except Closed:
            # Exits without clean-up, as above. The line is for the submission's author.
            os.write(2, b"the connection to the grader is gone: was a descriptor closed that was not yours?\n")
            os._exit(1)
        except WireError as error:
            too_large = Failure("output", f"what came back is too large to be passed on: {error}")
            channel.send({**too_large.to_json(), "ticket": runner.ticket})


if __name__ == "__main__":
    main(int(sys.argv[1]))
