"""Holding a GPU's clocks still while it is timed, and letting go of them in every case.

A locked clock makes times repeat better and makes them longer: it is the clock that the board bears for ever, not the
one that it reaches when cool. So it is done only when asked for. It changes the device for everybody, and the driver
keeps it until somebody takes it back, so:

    journal  -->  lock  -->  measure  -->  unlock  -->  journal emptied

The journal, a file in the directory of the device locks, is written before anything is locked, and its writer holds it
with flock. Whoever finds words in a journal that nobody holds (the next grading, after a kill -9) knows that the
clocks were left locked, and unlocks them. SIGTERM is made an exception meanwhile, where it would end the process.

The driver does not tell whether clocks were locked before. A lock of somebody else's is replaced, and gone afterwards.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from harness.machine.locks import file_name, lock_directory, open_shared

_SUSTAINABLE = 0.75
"""Of the highest SM clock: where to lock a device that does not know its base clock itself."""
_TDP = 0xFFFFFF01
"""NVML_CLOCK_LIMIT_ID_TDP in nvml.h: the clock that the board sustains within its power; nvbench calls it base."""


@dataclass(frozen=True)
class ClockLock:
    """What came of locking."""

    locked: bool
    """Whether the SM clock is held."""
    message: str
    """One sentence: at what the clocks are held, or why they can't be."""


@contextlib.contextmanager
def locked_clocks(uuid: str | None, nvml: Any = None) -> Iterator[ClockLock]:
    """Hold the clocks of the GPU inside. Never raises for a device that does not let us: it says so instead.

    To be called with the device's lock held: two that lock one device's clocks would undo each other's work. `nvml` is
    the module pynvml, or what stands in for it.
    """
    if uuid is None:
        yield ClockLock(False, "The clocks can't be locked: this device is no NVIDIA GPU.")
        return
    with contextlib.ExitStack() as stack:
        try:
            session = stack.enter_context(_session(nvml))
            handle = _handle(session, uuid)
            journal = stack.enter_context(_journal(uuid))
            left_behind = _write(journal, {"pid": os.getpid(), "uuid": uuid})
        except _Unavailable as error:
            yield ClockLock(False, f"The clocks can't be locked: {error}.")
            return
        stack.enter_context(_sigterm_raises())
        locked = True  # until it is known not to be: a signal may come in the middle of locking
        try:
            outcome = _lock(session, handle)
            locked = outcome.locked
            yield outcome
        finally:
            # What was refused to us, and was not left by somebody else, needs no undoing.
            if not (locked or left_behind) or _unlock(session, handle):
                _write(journal, None)


def free_left_behind(uuid: str | None, nvml: Any = None) -> str | None:
    """Unlock clocks that a grading left locked when it was killed. Says so in a sentence; None when there was nothing.

    To be called with the device's lock held.
    """
    if uuid is None or not _journal_path(uuid).exists():
        return None
    try:
        with _journal(uuid) as journal:
            if not os.pread(journal, 1, 0):
                return None
            with _session(nvml) as session:
                if _unlock(session, _handle(session, uuid)):
                    _write(journal, None)
                    return "A grading that was killed had left the device's clocks locked; they have been unlocked."
    except _Held:
        return None  # its owner lives and will see to it
    except _Unavailable:
        pass
    return (
        "A grading that was killed has left the device's clocks locked, and unlocking them was refused; "
        "as root: nvidia-smi --reset-gpu-clocks --reset-memory-clocks."
    )


class _Unavailable(Exception):
    """Clocks can't be touched, and the message says why."""


class _Held(_Unavailable):
    """Somebody who lives holds the journal."""


@contextlib.contextmanager
def _session(nvml: Any) -> Iterator[Any]:
    if nvml is None:
        try:
            import pynvml
        except ImportError as error:
            raise _Unavailable("the package nvidia-ml-py is missing") from error
        nvml = pynvml
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError, OSError) as error:
        raise _Unavailable(f"the driver's management library does not answer ({error})") from error
    try:
        yield nvml
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _handle(nvml: Any, uuid: str) -> Any:
    try:
        return nvml.nvmlDeviceGetHandleByUUID(uuid)
    except nvml.NVMLError as error:
        raise _Unavailable(f"the driver does not find the device ({error})") from error


def _lock(nvml: Any, handle: Any) -> ClockLock:
    try:
        at = _lock_sm(nvml, handle)
    except nvml.NVMLError as error:
        return ClockLock(False, _refused(nvml, error))
    try:
        memory = int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM))
        nvml.nvmlDeviceSetMemoryLockedClocks(handle, memory, memory)
    except nvml.NVMLError:
        return ClockLock(True, f"The SM clock is locked at {at}; the memory clock can't be.")
    return ClockLock(True, f"The SM clock is locked at {at}, the memory clock at {memory} MHz.")


def _lock_sm(nvml: Any, handle: Any) -> str:
    try:
        nvml.nvmlDeviceSetGpuLockedClocks(handle, _TDP, _TDP)
        return "the device's base clock"
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_INVALID_ARGUMENT:
            raise
    highest = int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))
    wanted = int(_SUSTAINABLE * highest)
    with contextlib.suppress(nvml.NVMLError):
        memory = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM)
        offered = [int(clock) for clock in nvml.nvmlDeviceGetSupportedGraphicsClocks(handle, memory)]
        wanted = max((clock for clock in offered if clock <= wanted), default=wanted)
    nvml.nvmlDeviceSetGpuLockedClocks(handle, wanted, wanted)
    return f"{wanted} MHz"


def _unlock(nvml: Any, handle: Any) -> bool:
    """Whether the SM clock is free afterwards. A memory clock that can't be locked can't be unlocked either."""
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlDeviceResetMemoryLockedClocks(handle)
    try:
        nvml.nvmlDeviceResetGpuLockedClocks(handle)
    except nvml.NVMLError:
        return False
    return True


def _refused(nvml: Any, error: Any) -> str:
    if error.value == nvml.NVML_ERROR_NO_PERMISSION:
        return "The clocks can't be locked: that takes root (in a container, CAP_SYS_ADMIN); they move as they like."
    if error.value == nvml.NVML_ERROR_NOT_SUPPORTED:
        return "The clocks can't be locked: this device does not support it; they move as they like."
    return f"The clocks can't be locked: {error}; they move as they like."


def _journal_path(uuid: str) -> Path:
    return lock_directory() / f"{file_name(uuid)}.clocks"


@contextlib.contextmanager
def _journal(uuid: str) -> Iterator[int]:
    """The journal's descriptor, held."""
    try:
        fd = open_shared(_journal_path(uuid))
    except OSError as error:
        raise _Unavailable(f"there is no writing down that they are ({error})") from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _Held("another grading holds them") from error
        yield fd
    finally:
        os.close(fd)


def _write(journal: int, entry: dict[str, Any] | None) -> bool:
    """Replace what stands in the journal; whether there was anything."""
    try:
        before = bool(os.pread(journal, 1, 0))
        os.ftruncate(journal, 0)
        if entry is not None:
            os.pwrite(journal, json.dumps(entry).encode(), 0)
        os.fsync(journal)
    except OSError as error:
        raise _Unavailable(f"there is no writing down that they are ({error})") from error
    return before


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    """SIGTERM as an exception, where nobody has made it one yet, so that `finally` gets its turn."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def leave(number: int, _: FrameType | None) -> NoReturn:
        # Once is enough: a second one must not cut short the undoing that the first began.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
