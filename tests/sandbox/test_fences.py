"""Who a command is outside, and the limits that the kernel keeps: what no look from outside can miss."""

from __future__ import annotations

import os
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.sandbox import (
    SANDBOXES,
    BubblewrapSandbox,
    Command,
    Limit,
    Limits,
    Mount,
    Sandbox,
    SandboxError,
    cgroup,
    identity,
)
from harness.sandbox.bubblewrap import why_no_identity
from harness.sandbox.mounts import interpreter_mounts
from harness.sandbox.supervisor import descendants

MB = 1 << 20


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    where = tmp_path / "temporary"
    where.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(where))
    yield where
    assert list(where.iterdir()) == [], "something of a sandbox is left"


@pytest.fixture
def bubblewrap() -> Sandbox:
    if why := BubblewrapSandbox.unavailable():
        pytest.skip(why)
    return BubblewrapSandbox()


@pytest.fixture
def apart(bubblewrap: Sandbox) -> Sandbox:
    """Bubblewrap whose commands have an id of their own outside."""
    if why := why_no_identity():
        pytest.skip(why)
    return bubblewrap


@pytest.fixture(params=sorted(set(SANDBOXES) - {"none"}))
def fenced(request: pytest.FixtureRequest) -> Sandbox:
    """A sandbox whose commands are in a control group."""
    kind = SANDBOXES[request.param]
    if why := kind.unavailable() or kind.degraded().get("kernel_limits"):
        pytest.skip(why)
    return kind()


def python(script: str, *mounts: Mount, cwd: Path | None = None) -> Command:
    argv = (sys.executable, "-I", "-S", "-c", "import mmap, os, socket, sys, time\n" + script)
    return Command(argv=argv, mounts=(*interpreter_mounts(), *mounts), cwd=cwd)


def run(sandbox: Sandbox, command: Command, limits: Limits | None = None) -> str:
    with sandbox.start(command, limits or Limits()) as running:
        assert running.wait(30).code == 0, running.output()
        return running.output()


def outside_ids(root: int) -> set[int]:
    lines = [Path(f"/proc/{pid}/status").read_text().splitlines() for pid in descendants(root)]
    return {int(number) for each in lines for line in each if line.startswith("Uid") for number in line.split()[1:]}


def wait_for(text: str, running: object) -> None:
    deadline = time.monotonic() + 20
    while text not in running.output() and time.monotonic() < deadline:  # type: ignore[attr-defined]
        time.sleep(0.01)
    assert text in running.output()  # type: ignore[attr-defined]


def test_nothing_of_a_command_is_root_and_no_two_share_an_id(apart: Sandbox) -> None:
    script = python("print('up', flush=True); time.sleep(60)")
    with apart.start(script, Limits()) as first, apart.start(script, Limits()) as second:
        wait_for("up", first)
        wait_for("up", second)
        ids = [outside_ids(each.root) for each in (first, second)]  # type: ignore[attr-defined]
    assert [len(each) for each in ids] == [1, 1]
    assert ids[0] != ids[1]
    assert 0 not in ids[0] | ids[1]


def test_what_is_closed_to_others_is_closed_to_a_command(apart: Sandbox, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "open").write_text("open")
    (shown / "secret").write_text("secret")
    (shown / "secret").chmod(0o600)
    tmp_path.chmod(0o700)  # no way in for others, and still the folder below it is found
    script = f"print(open({str(shown / 'open')!r}).read())\ntry: open({str(shown / 'secret')!r})\n"
    script += f"except PermissionError: print('refused')\nprint(os.listdir({str(tmp_path)!r}))"
    assert run(apart, python(script, Mount(shown))) == "open\nrefused\n['shown']\n"


def test_a_mount_that_others_can_not_read_is_said(apart: Sandbox, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(SandboxError, match=f"{closed} can't be read by others"):
        apart.start(python("pass", Mount(closed)), Limits())


def test_a_mount_that_is_not_there_is_the_sandbox_error(apart: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="missing"):
        apart.start(python("pass", Mount(tmp_path / "missing")), Limits())


def test_a_writable_folder_belongs_to_the_command_and_links_in_it_lead_nowhere(apart: Sandbox, tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.cpp").write_text("int a;")
    outside.write_text("mine")
    (folder / "link").symlink_to(outside)
    mount = Mount(folder, writable=True)
    script = "open('a.cpp', 'a').write('int b;'); open('a.o', 'w').close(); print(os.getuid())"
    assert run(apart, python(script, mount, cwd=folder / "src")) == "65534\n"
    owner = (folder / "src" / "a.o").stat().st_uid
    assert owner == (folder / "src" / "a.cpp").stat().st_uid != 0
    assert outside.stat().st_uid == 0
    # What the grader puts in later is given away as well, to the same id: compilers work side by side.
    (folder / "src" / "b.cpp").write_text("int c;")
    run(apart, python("open('b.cpp', 'a').close(); open('a.o', 'a').close()", mount, cwd=folder / "src"))
    assert (folder / "src" / "b.cpp").stat().st_uid == owner
    assert stat.S_IMODE((folder / "src" / "a.o").stat().st_mode) == 0o644


def test_pipes_can_be_opened_by_name(bubblewrap: Sandbox) -> None:
    assert run(bubblewrap, python("open('/dev/stdout', 'w').write('out'); open('/dev/stderr', 'w').write('err')"))


def test_processor_time_is_limited(bubblewrap: Sandbox) -> None:
    with bubblewrap.start(python("while True: pass"), Limits(cpu_s=0.4)) as running:
        ended = running.wait(30)
    assert ended.limit is Limit.CPU_TIME
    assert ended.limit_value == 0.4


def test_the_time_of_ended_processes_counts(bubblewrap: Sandbox) -> None:
    script = """
while True:
    child = os.fork()
    if child == 0:
        end = time.process_time() + 0.05
        while time.process_time() < end: pass
        os._exit(0)
    os.waitpid(child, 0)
"""
    with bubblewrap.start(python(script), Limits(cpu_s=1)) as running:
        assert running.wait(30).limit is Limit.CPU_TIME


HIDDEN = {
    "given_back_mappings": """
maps = []
for i in range(40):
    m = mmap.mmap(-1, 10 << 20); maps.append(m)
    for j in range(10): m.write(b'x' * (1 << 20))
    m.madvise(mmap.MADV_DONTNEED)
""",
    "files_on_their_way": """
pairs = []
for i in range(40):
    fd = os.memfd_create('m')
    for j in range(10): os.write(fd, b'x' * (1 << 20))
    pair = socket.socketpair(); pairs.append(pair)
    socket.send_fds(pair[0], [b'x'], [fd]); os.close(fd)
""",
}


@pytest.mark.parametrize("script", HIDDEN.values(), ids=HIDDEN.keys())
def test_memory_that_no_process_shows_is_fenced(fenced: Sandbox, script: str) -> None:
    with fenced.start(python(script + "print('all of it'); time.sleep(60)"), Limits(memory_bytes=64 * MB)) as running:
        ended = running.wait(30)
        assert (ended.limit, ended.limit_value) == (Limit.MEMORY, 64 * MB), running.output()
        assert ended.used is not None
        assert ended.used > 64 * MB


def test_the_fence_leaves_room_for_what_is_allowed(fenced: Sandbox) -> None:
    script = "x = memoryview(b'x' * (200 << 20))\n"
    script += "open(os.environ['TMPDIR'] + '/f', 'wb').write(x[: 100 << 20])\nprint('done')"
    assert run(fenced, python(script), Limits(memory_bytes=250 * MB)) == "done\n"


def groups_left(owner: int) -> list[str]:
    place = cgroup._found()
    assert isinstance(place, cgroup.Place)
    return [
        name
        for folder in (place.memory, place.pids)
        for name in os.listdir(folder)
        if name.startswith("harness-") and f"-{owner}-" in name
    ]


def test_control_groups_go_with_the_command(bubblewrap: Sandbox) -> None:
    if why := cgroup.why_not():
        pytest.skip(why)
    with bubblewrap.start(python("time.sleep(60)"), Limits(memory_bytes=64 * MB)):
        assert groups_left(os.getpid())
    assert groups_left(os.getpid()) == []


GRADER = """
import sys, tempfile; sys.path.insert(0, {root!r}); tempfile.tempdir = {where!r}
from harness.sandbox import Command, Limits, by_name
from harness.sandbox.mounts import interpreter_mounts
script = '''
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: break
        os._exit(0)
print("up", flush=True)
time.sleep(1000)
'''
command = Command(argv=(sys.executable, "-I", "-S", "-c", script), mounts=interpreter_mounts())
running = by_name({name!r}).start(command, Limits(memory_bytes=64 << 20))
import time
while running.output().count("up") < 4: time.sleep(0.01)
print(running.root, flush=True); sys.stdin.read()
"""


@pytest.mark.parametrize("name", SANDBOXES)
def test_everything_goes_when_the_grader_is_killed(name: str, temporary: Path) -> None:
    if why := SANDBOXES[name].unavailable():
        pytest.skip(why)
    script = GRADER.format(root=str(Path(__file__).parents[2]), where=str(temporary), name=name)
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1) as grader:
        assert grader.stdout is not None
        root = int(grader.stdout.readline())
        below = descendants(root)
        assert len(below) >= 4  # the command, and three that have left its session
        handles = [os.pidfd_open(pid) for pid in (root, *below)]
        grader.send_signal(signal.SIGKILL)
    for handle in handles:
        assert select.select([handle], [], [], 30)[0], "a process has outlived its grader"
        os.close(handle)
    if cgroup.why_not() is None:
        assert groups_left(grader.pid) == []
    from harness.sandbox.scratch import sweep

    sweep(temporary)


def test_a_container_s_first_process_can_not_be_taken_over() -> None:
    """It ends the others when the grader is gone, and runs as the same user: one that could write to its memory would
    live on. (Bubblewrap's is ended from outside, by a supervisor that is not within reach.)"""
    if why := SANDBOXES["docker"].unavailable():
        pytest.skip(why)
    script = "import signal\nfor work in (lambda: open('/proc/1/mem', 'r+b'), lambda: os.listdir('/proc/1/fd')):\n"
    script += " try: work(); print('done')\n except OSError as error: print(type(error).__name__)\n"
    script += "os.kill(1, signal.SIGKILL); os.kill(1, signal.SIGSTOP); print('alive')"
    assert run(SANDBOXES["docker"](), python(script)) == "PermissionError\nPermissionError\nalive\n"


def test_a_supervisor_that_is_killed_takes_the_command_along(bubblewrap: Sandbox) -> None:
    with bubblewrap.start(python("print('up', flush=True); time.sleep(1000)"), Limits()) as running:
        wait_for("up", running)
        root = running.root  # type: ignore[attr-defined]
        handles = [os.pidfd_open(pid) for pid in descendants(root)]
        os.kill(root, signal.SIGKILL)
        assert running.wait(30).signal == signal.SIGKILL
    for handle in handles:
        assert select.select([handle], [], [], 30)[0]
        os.close(handle)


def test_an_id_is_given_only_to_a_root_grader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "no root" in (identity.why_not() or "")


def test_ways_name_the_outermost_closed_folder(tmp_path: Path) -> None:
    deep = tmp_path / "closed" / "open" / "closed" / "x"
    deep.mkdir(parents=True)
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o711)  # pytest's own
    (tmp_path / "closed").chmod(0o700)
    (tmp_path / "closed" / "open").chmod(0o755)
    (tmp_path / "closed" / "open" / "closed").chmod(0o700)
    ways = identity.ways_to_open([deep, deep / "..", Path("/usr"), deep.parent])
    assert ways == {str(tmp_path / "closed"): [str(deep.parent)]}
