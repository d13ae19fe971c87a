"""A library in a worker's hands: it loads, and nothing that is done with its descriptor reaches the cache."""

from __future__ import annotations

import fcntl
import importlib.machinery
import importlib.util
import mmap
import os
import socket
from pathlib import Path

import pytest
from build_samples import tiny

from harness.build import BuildOutcome, BuildService
from harness.build.handout import SEALS, sealed_copy
from harness.wire.frames import Channel
from harness.workers import claims
from harness.workers.worker import Worker, _pending


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "library.so"
    path.write_bytes(b"x" * 5000)
    path.chmod(0o444)
    return path


def assert_unchangeable(fd: int, size: int) -> None:
    """What a process of the same user can try through a descriptor."""
    os.fchmod(fd, 0o666)
    writable = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    try:
        for attempt in (
            lambda: os.write(writable, b"y"),
            lambda: os.ftruncate(writable, 1 << 40),
            lambda: os.ftruncate(writable, 0),
            lambda: os.posix_fallocate(writable, 0, 1 << 20),
            lambda: mmap.mmap(writable, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE),
            lambda: fcntl.fcntl(writable, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE),
        ):
            with pytest.raises(OSError, match=r"not permitted|denied"):
                attempt()
    finally:
        os.close(writable)


def test_a_sealed_copy_can_not_be_changed_and_is_no_way_to_the_file(file: Path) -> None:
    fd = sealed_copy(file)
    try:
        assert_unchangeable(fd, 5000)
        assert os.pread(fd, 6000, 0) == b"x" * 5000
        assert not os.path.samestat(os.fstat(fd), file.stat())
        assert file.stat().st_mode & 0o777 == 0o444
    finally:
        os.close(fd)


def test_nothing_stays_open_where_there_is_no_file(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        sealed_copy(tmp_path / "nothing")
    assert os.listdir("/proc/self/fd") == before


def test_a_worker_gets_a_sealed_copy(file: Path) -> None:
    outcome = BuildOutcome(
        ok=True, library=file, module_name="m", key="k", cached=True, seconds=0, recipe="none", diagnostics=[], log="",
        kernels=[],
    )  # fmt: skip
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker = object.__new__(Worker)
        worker._channel, worker._on_build, worker._builds = Channel(ours), lambda _: outcome, 0
        worker._build(claims.Build(type="build", request={}), _pending("import", 10))
        channel = Channel(theirs)
        assert channel.receive(take_fds=True) == {"type": "built", "module_name": "m", "key": "k"}
        (fd,) = channel.take_descriptors()
    try:
        assert fcntl.fcntl(fd, fcntl.F_GET_SEALS) == SEALS
        assert_unchangeable(fd, 5000)
    finally:
        os.close(fd)


def test_a_sealed_copy_is_imported(service: BuildService) -> None:
    outcome = service.build(tiny(), arch=(), device="cpu")
    assert outcome.library is not None, outcome.log
    path = f"/proc/self/fd/{sealed_copy(outcome.library)}"  # open as long as the process lives: the loader knows it
    loader = importlib.machinery.ExtensionFileLoader("tiny", path)
    spec = importlib.util.spec_from_file_location("tiny", path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    assert module.answer() == 35
