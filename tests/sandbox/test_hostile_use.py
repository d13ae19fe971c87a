"""What a command may do to be counted wrong, to outlast its end, or to break those who count."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.sandbox import SANDBOXES, Command, Limit, Limits, Mount, Sandbox, SandboxError
from harness.sandbox import process as process_module
from harness.sandbox.scratch import Scratch
from harness.sandbox.supervisor import descendants
from harness.sandbox.usage import exact_memory, look

MB = 1 << 20
SYSTEM = [Path(p) for p in ("/usr", "/bin", "/lib", "/lib64", "/sbin", sys.base_prefix) if Path(p).exists()]
OUTERMOST = tuple(Mount(p) for p in dict.fromkeys(SYSTEM) if not any(o in p.parents for o in SYSTEM))
DEEP = "for i in range(1500):\n os.mkdir('d'); os.chdir('d')\n"


@pytest.fixture(params=sorted(SANDBOXES))
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    kind = SANDBOXES[request.param]
    if why := kind.unavailable():
        pytest.skip(why)
    return kind()


@pytest.fixture(params=sorted(set(SANDBOXES) - {"none"}))
def isolating(request: pytest.FixtureRequest) -> Sandbox:
    kind = SANDBOXES[request.param]
    if why := kind.unavailable():
        pytest.skip(why)
    return kind()


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.iterdir()) == [], "something of a sandbox is left"


def python(script: str) -> Command:
    prologue = "import mmap, os, sys, time\nos.chdir(os.environ['TMPDIR'])\n"
    interpreter = str(Path(sys.executable).resolve())
    return Command(argv=(interpreter, "-I", "-S", "-c", prologue + script), mounts=OUTERMOST)


def test_a_deep_folder_is_removed(sandbox: Sandbox) -> None:
    with sandbox.start(python(DEEP + "print('done')"), Limits()) as running:
        ended = running.wait(30)
        assert (ended.code, running.output()) == (0, "done\n")


def test_limits_hold_beside_a_deep_folder(sandbox: Sandbox) -> None:
    script = DEEP + "x = b'x' * (200 << 20)\ntime.sleep(60)"
    with sandbox.start(python(script), Limits(memory_bytes=100 * MB)) as running:
        assert running.wait(30).limit is Limit.MEMORY


def test_folders_without_permissions_are_removed(sandbox: Sandbox) -> None:
    script = "os.makedirs('a/b/c'); open('a/b/f', 'w')\nfor d in ('a/b/c', 'a/b', 'a', '.'): os.chmod(d, 0)\n"
    with sandbox.start(python(script), Limits()) as running:
        assert running.wait(10).code == 0, running.output()


@pytest.mark.parametrize(
    "script",
    [
        "b = b'x' * (1 << 20)\nfor i in range(60): open(f'f{i}', 'wb').write(b)",
        "f = open('f', 'wb+'); os.unlink('f')\nf.write(b'x' * (25 << 20)); f.flush()\n"
        "g = open('f', 'wb+'); os.unlink('f')\ng.write(b'x' * (25 << 20)); g.flush()",
        "for i in range(30 << 8): os.close(os.open(str(i), os.O_CREAT))",
    ],
    ids=["files", "unlinked", "entries"],
)
def test_whatever_takes_disk_is_counted(sandbox: Sandbox, script: str) -> None:
    with sandbox.start(python(script + "\ntime.sleep(60)"), Limits(disk_bytes=30 * MB)) as running:
        assert running.wait(30).limit is Limit.DISK, running.output()


def test_one_file_is_limited_by_default(sandbox: Sandbox) -> None:
    script = "try: os.truncate(os.open('f', os.O_CREAT | os.O_RDWR), 11 << 20)\nexcept OSError as e: print(e.strerror)"
    with sandbox.start(python(script), Limits(disk_bytes=10 * MB)) as running:
        running.wait(10)
        assert running.output() == "File too large\n"


FILL = "b = b'x' * (1 << 20)\nfor i in range(80): os.write({0}, b)\n"
MEMFD = "fd = os.memfd_create('m')\n" + FILL.format("fd")


@pytest.mark.parametrize(
    "script",
    [
        MEMFD + "first = fd\n" + MEMFD,
        "maps = [mmap.mmap(-1, 80 << 20) for _ in range(2)]\nif os.fork() == 0: maps = maps[:1]\n"
        "else: maps = maps[1:]\nfor i in range(80): maps[0].write(b'x' * (1 << 20))",
    ],
    ids=["memfd", "two_shared_mappings"],
)
def test_whatever_takes_memory_is_counted(sandbox: Sandbox, script: str) -> None:
    with sandbox.start(python(script + "\ntime.sleep(60)"), Limits(memory_bytes=130 * MB)) as running:
        assert running.wait(30).limit is Limit.MEMORY, running.output()


def test_files_in_dev_shm_count_as_memory(isolating: Sandbox) -> None:
    script = "fd = os.open('/dev/shm/x', os.O_CREAT | os.O_RDWR)\n" + FILL.format("fd") + "os.close(fd)\n"
    script += "y = b'y' * (80 << 20)\ntime.sleep(60)"
    with isolating.start(python(script), Limits(memory_bytes=130 * MB)) as running:
        assert running.wait(30).limit is Limit.MEMORY, running.output()


def test_dev_shm_has_a_size(isolating: Sandbox) -> None:
    script = "s = os.statvfs('/dev/shm'); print(s.f_blocks * s.f_frsize)"
    with isolating.start(python(script), Limits(memory_bytes=64 * MB)) as running:
        running.wait(10)
        assert running.output() == f"{64 * MB}\n"


def test_nothing_else_in_memory_can_be_written(isolating: Sandbox) -> None:
    script = "for d in ('/', '/dev', '/dev/pts', '/proc', '/usr'):\n"
    script += " try: open(d + '/x', 'w'); print('wrote to', d)\n except OSError: pass\n"
    script += (
        "for d in ('/tmp', '/dev/shm', '/scratch', os.environ['HOME']): open(d + '/x', 'w')\nopen('/dev/null', 'w')"
    )
    with isolating.start(python(script), Limits()) as running:
        assert (running.wait(10).code, running.output()) == (0, "")


def test_shared_memory_counts_once(sandbox: Sandbox) -> None:
    """Eight processes with the same 40 MB by three names: anonymous pages after a fork, a mapping, an open file."""
    script = MEMFD + "m = mmap.mmap(fd, 80 << 20); x = b'x' * (40 << 20); s = mmap.mmap(-1, 40 << 20)\n"
    script += (
        "s.write(x)\nfor i in range(7):\n if os.fork() == 0: break\nm[::4096]; s[::4096]; print('ready', flush=True)\n"
    )
    limits = Limits(memory_bytes=400 * MB)
    with sandbox.start(python(script + "time.sleep(60)"), limits) as running:
        while running.output().count("ready") < 8 and running.poll() is None:
            threading.Event().wait(0.02)
        seen = look(running.root, descendants(running.root), None)  # type: ignore[attr-defined]
        assert seen.memory > 400 * MB
        assert 150 * MB < exact_memory(seen) < 320 * MB
        assert running.poll() is None


def test_a_watcher_that_breaks_ends_the_command(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> int:
        raise RecursionError("too deep")

    monkeypatch.setattr(process_module, "look", broken)
    with sandbox.start(python("time.sleep(600)"), Limits()) as running:
        ended = running.wait(30)
        assert (ended.signal, ended.limit) == (9, None)
        assert "RecursionError: too deep" in running.output()


def test_a_removal_that_fails_keeps_nobody_waiting(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = Scratch.remove

    def broken(self: Scratch) -> None:
        remove(self)
        raise RecursionError("too deep")

    monkeypatch.setattr(Scratch, "remove", broken)
    with sandbox.start(python("print('done')"), Limits()) as running:
        assert running.wait(30).code == 0


def test_killing_gives_up_at_some_time(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, remove = threading.Event(), Scratch.remove
    monkeypatch.setattr(process_module, "_KILL_WITHIN_S", 0.2)

    def slow(self: Scratch) -> None:
        go_on.wait(60)
        remove(self)

    monkeypatch.setattr(Scratch, "remove", slow)
    running = sandbox.start(python("time.sleep(600)"), Limits())
    with pytest.raises(SandboxError, match="could not be ended"):
        running.kill()
    go_on.set()
    running.wait(30)
