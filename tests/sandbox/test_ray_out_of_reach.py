"""Of a node of a Ray cluster a submission reaches nothing: no socket, no port, no object store, no word of it."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness.machine.place import Place
from harness.sandbox import SANDBOXES, Command, Limits
from harness.sandbox.mounts import interpreter_mounts, worker_environment

LOOK = """
import json, os, socket, sys

def reached(family, where):
    try:
        with socket.socket(family) as end:
            end.settimeout(2)
            end.connect(where)
    except OSError:
        return False
    return True

path, abstract, port, stored = json.loads(sys.argv[1])
found = {
    "its socket": reached(socket.AF_UNIX, path),
    "a socket without a file": reached(socket.AF_UNIX, chr(0) + abstract),
    "its port": reached(socket.AF_INET, ("127.0.0.1", port)),
    "the object store": os.path.exists(stored),
    "its environment": any(name.startswith("RAY_") for name in os.environ),
}
print(json.dumps([name for name, there in found.items() if there]))
"""


def test_a_node_of_a_cluster_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    bubblewrap = SANDBOXES["bubblewrap"]
    if why := bubblewrap.unavailable():
        pytest.skip(why)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")
    name = f"raylet-{secrets.token_hex(8)}"
    with contextlib.ExitStack() as stack:
        # As Ray has them: below /tmp, and in /dev/shm.
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp")))
        stored = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plasma-", dir="/dev/shm")))
        named, abstract = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        named.bind(str(sockets / "raylet"))
        abstract.bind(f"\0{name}")
        port = stack.enter_context(socket.socket())
        port.bind(("127.0.0.1", 0))
        for each in (named, abstract, port):
            each.listen()
        wanted = json.dumps([str(sockets / "raylet"), name, port.getsockname()[1], str(stored)])
        command = Command(
            argv=(sys.executable, "-I", "-c", LOOK, wanted),
            env=worker_environment(Place("cpu")),
            mounts=interpreter_mounts(),
        )
        with bubblewrap().start(command, Limits(wall_s=30)) as running:
            ended = running.wait(60)
            assert (ended.code, running.output().strip()) == (0, "[]")
        # The same look from outside finds all of it.
        seen = {**worker_environment(Place("cpu")), "RAY_ADDRESS": "x"}
        ran = subprocess.run([*command.argv], env=seen, capture_output=True, text=True, timeout=60, check=True)
        assert len(json.loads(ran.stdout)) == 5
