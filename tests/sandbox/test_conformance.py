"""What every sandbox must do, run on each that works here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.sandbox import SANDBOXES, BubblewrapSandbox, Command, Limit, Limits, Mount, Sandbox, SandboxError

SYSTEM = tuple(Mount(Path(p)) for p in ("/usr", "/bin", "/lib", "/lib64", "/sbin") if Path(p).exists())


@pytest.fixture(params=sorted(SANDBOXES))
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    kind = SANDBOXES[request.param]
    if why := kind.unavailable():
        pytest.skip(why)
    return kind()


def shell(script: str, **more: object) -> Command:
    return Command(argv=("/bin/sh", "-c", script), env={"PATH": "/usr/bin:/bin"}, mounts=SYSTEM, **more)  # type: ignore[arg-type]


def test_exit_code_and_output_are_kept(sandbox: Sandbox) -> None:
    with sandbox.start(shell("echo out; echo err >&2; exit 7"), Limits()) as running:
        ended = running.wait(10)
        assert (ended.code, ended.signal, ended.limit) == (7, None, None)
        assert running.output() == "out\nerr\n"


def test_a_signal_is_told_from_an_exit_code(sandbox: Sandbox) -> None:
    with sandbox.start(shell("kill -SEGV $$"), Limits()) as running:
        ended = running.wait(10)
    # Inside a PID namespace the first process passes a signal on as 128 + n, as a shell would.
    assert ended.signal == 11 or ended.code == 139


def test_the_environment_is_built_from_nothing(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_GRADER", "x")
    with sandbox.start(shell("env"), Limits()) as running:
        running.wait(10)
        names = {line.split("=")[0] for line in running.output().splitlines()}
    assert names <= {"PATH", "HOME", "TMPDIR", "PWD", "SHLVL", "_", "OLDPWD"}


def test_only_named_descriptors_are_inherited(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = (tmp_path / "secret").open("w")
    os.set_inheritable(secret.fileno(), True)
    with sandbox.start(shell("ls -l /proc/$$/fd"), Limits()) as running:
        running.wait(10)
        assert "secret" not in running.output()
    secret.close()


def test_a_passed_descriptor_arrives(sandbox: Sandbox) -> None:
    read_end, write_end = os.pipe()
    with sandbox.start(shell(f"echo hello > /proc/self/fd/{write_end}", pass_fds=(write_end,)), Limits()) as running:
        os.close(write_end)
        running.wait(10)
    assert os.read(read_end, 100) == b"hello\n"
    os.close(read_end)


def test_wall_time_is_limited(sandbox: Sandbox) -> None:
    with sandbox.start(shell("sleep 100"), Limits(wall_s=0.3)) as running:
        ended = running.wait(20)
    assert ended.limit is Limit.WALL_TIME
    assert ended.limit_value == 0.3


def test_output_is_limited_and_its_ends_are_kept(sandbox: Sandbox) -> None:
    with sandbox.start(shell("echo first; yes"), Limits(output_bytes=1 << 20)) as running:
        ended = running.wait(20)
        text = running.output()
    assert ended.limit is Limit.OUTPUT
    assert text.startswith("first\n")
    assert "bytes left out" in text
    assert len(text) < 1 << 18


def test_memory_is_limited(sandbox: Sandbox) -> None:
    script = "x=$(head -c 400000000 /dev/zero | tr '\\0' x); echo survived; sleep 5"
    with sandbox.start(shell(script), Limits(memory_bytes=100 << 20)) as running:
        ended = running.wait(30)
    assert ended.limit is Limit.MEMORY
    assert ended.used is not None
    assert ended.used > 100 << 20


def test_processes_are_limited(sandbox: Sandbox) -> None:
    with sandbox.start(shell("for i in $(seq 60); do sleep 30 & done; wait"), Limits(processes=40)) as running:
        ended = running.wait(20)
    assert ended.limit is Limit.PROCESSES


def test_scratch_space_is_limited(sandbox: Sandbox) -> None:
    script = 'head -c 50000000 /dev/zero > "$TMPDIR/big"; sleep 30'
    with sandbox.start(shell(script), Limits(disk_bytes=10 << 20)) as running:
        ended = running.wait(20)
    assert ended.limit is Limit.DISK


def test_killing_ends_orphans_too(sandbox: Sandbox) -> None:
    marker = f"{os.getpid()}.{time.monotonic_ns()}"
    script = f"(setsid sh -c 'sleep 1000 # {marker}' &) ; sleep 1000 # {marker}"
    with sandbox.start(shell(script), Limits()) as running:
        deadline = time.monotonic() + 10
        while len(_with_marker(marker)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(_with_marker(marker)) >= 2
        running.kill()
    assert _with_marker(marker) == []


def test_a_command_can_be_held_still(sandbox: Sandbox) -> None:
    script = "(while :; do echo child; sleep 0.01; done) & while :; do echo parent; sleep 0.01; done"
    with sandbox.start(shell(script), Limits(output_bytes=1 << 30)) as running:
        _until(lambda: {"child", "parent"} <= set(running.output().split()))
        running.stop()
        time.sleep(0.1)  # what was written before is read
        before = running.output()
        time.sleep(0.3)
        assert running.output() == before
        running.go_on()
        _until(lambda: {"child", "parent"} <= set(running.output()[len(before) :].split()))


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_ended_command_leaves_no_orphan(sandbox: Sandbox) -> None:
    marker = f"{os.getpid()}.{time.monotonic_ns()}"
    with sandbox.start(shell(f"setsid sh -c 'sleep 1000 # {marker}' & sleep 0.2"), Limits()) as running:
        running.wait(10)
        assert _with_marker(marker) == []


def test_the_scratch_folder_goes_with_it(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with sandbox.start(shell('touch "$TMPDIR/x"; sleep 100'), Limits()):
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_what_can_not_be_started_is_the_sandbox_error(sandbox: Sandbox) -> None:
    command = Command(argv=("/no/such/program",), mounts=SYSTEM)
    try:
        running = sandbox.start(command, Limits())
    except SandboxError as error:
        said = str(error)
    else:
        # Where a sandbox program stands before the command, it is that program that fails, and says so.
        assert running.wait(10).code
        said = running.output()
    assert "/no/such/program" in said


def _with_marker(marker: str) -> list[str]:
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{entry}/cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in line:
            found.append(entry)
    return found


@pytest.fixture
def bubblewrap() -> Sandbox:
    if why := BubblewrapSandbox.unavailable():
        pytest.skip(why)
    return BubblewrapSandbox()


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        ("ls /root /home /work", ""),
        ("cat /etc/passwd /etc/shadow", ""),
        ("ls /sys /dev/nvidia0", ""),
        ("ls /proc | grep -c '^[0-9]'", None),
        ("touch /usr/x || echo refused", "refused"),
        ("cat /proc/net/dev | grep -c eth", "0"),
        ("unshare -U true || echo refused", "refused"),
    ],
)
def test_bubblewrap_shows_only_what_is_named(bubblewrap: Sandbox, script: str, seen: str | None) -> None:
    with bubblewrap.start(shell(f"({script}) 2>/dev/null"), Limits()) as running:
        running.wait(10)
        said = running.output().strip()
    if seen is None:
        assert int(said) <= 6, "processes of the host are visible"
    else:
        assert said == seen
