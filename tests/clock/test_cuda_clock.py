"""What a timed loop does on a CUDA device, in which order. No GPU: fake_cuda.py writes it down."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from fake_cuda import FakeCuda, FakeRuntime

from harness.wire.digest import Digests, seal
from harness.wire.hashing import HostHasher
from harness.wire.mask import HostMasker, masked
from harness.wire.transfer import TensorSpec, flat_bytes
from harness.worker import memory as memory_module
from harness.worker.clock import CudaClock, Turns
from harness.worker.failure import Failure
from harness.worker.memory import CudaMemory
from harness.worker.runner import Runner

CPU = torch.device("cpu")
FLUSH = 1 << 12
KEY = 0x123456789ABCDEF


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    fake = FakeCuda()
    fake.install(monkeypatch)
    with fake:
        yield fake


@pytest.fixture
def runtime(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    fake = FakeRuntime(cuda.log)
    monkeypatch.setattr(memory_module, "_loaded_runtime", lambda: fake)
    return fake


@pytest.fixture
def memory(runtime: FakeRuntime) -> CudaMemory:
    return CudaMemory(CPU)


@pytest.fixture
def clock(cuda: FakeCuda, memory: CudaMemory) -> CudaClock:
    made = CudaClock(CPU, FLUSH, memory)
    cuda.name(made._flush, "flush")
    cuda.log.clear()
    return made


def turns_of(cuda: FakeCuda, calls: list[Any], **changes: Any) -> Turns:
    fields: dict[str, Any] = {
        "calls": calls,
        "mode": "device",
        "caches": "cold",
        "begin": lambda: cuda.log.append("begin"),
        "before": lambda turn: cuda.log.append(f"before {turn}"),
        "after": lambda turn, result: cuda.log.append(f"after {turn} {result}"),
        "marked": 0,
        "mark": lambda number: cuda.log.append(f"mark {number}"),
        "last": lambda: cuda.log.append("last"),
        "queued": lambda turns, whole: cuda.log.append(f"{turns} queued{', all' if whole else ''}"),
    }
    return Turns(**fields | changes)


def call_of(cuda: FakeCuda, name: str, operators: int = 1) -> Callable[[], str]:
    work = cuda.name(torch.zeros(4), name)

    def call() -> str:
        for _ in range(operators):
            work.add_(1)
        return name

    return call


def ran(cuda: FakeCuda, clock: CudaClock, turns: Turns) -> list[str]:
    clock.get_ready(turns)
    cuda.log.clear()
    clock.run(turns)
    return cuda.log


def test_a_call_stands_alone_between_its_events_behind_a_cold_cache_and_all_are_queued_before_it_is_said(
    cuda: FakeCuda, clock: CudaClock
) -> None:
    turns = turns_of(cuda, [call_of(cuda, "a"), call_of(cuda, "b", 3), None])
    assert ran(cuda, clock, turns) == [
        *("begin", "before 0", "zero_ flush", "record(1)", "add_ a", "record(2)", "after 0 a", "record(3)", "1 queued"),
        *("before 1", "zero_ flush", "record(4)", *["add_ b"] * 3, "record(5)", "after 1 b", "record(6)", "2 queued"),
        *("before 2", "zero_ flush", "record(7)", "record(8)", "after 2 None", "record(9)", "3 queued"),
        *("last", "3 queued, all", "wait"),
    ]
    elapsed, host = clock.readings()
    assert elapsed == pytest.approx([1.0, 3.0, 0.0])
    assert len(host) == 3
    assert clock.around_us() == 0.0
    # A shorter loop afterwards has the first events again, and no reading of the longer one.
    ran(cuda, clock, turns_of(cuda, [call_of(cuda, "c", 2)]))
    assert clock.readings()[0] == pytest.approx([2.0])
    assert len(clock.readings()[1]) == 1


@pytest.mark.parametrize("mode", ["device", "host"])
def test_marks_follow_some_turns_and_the_last_and_parts_between_them_are_told(
    cuda: FakeCuda, clock: CudaClock, mode: str
) -> None:
    digest = cuda.name(torch.zeros(4), "digest")

    def after(turn: int, result: object) -> None:
        for _ in range(1 if turn < 2 else 5):
            digest.add_(1)

    calls = [call_of(cuda, name, 2) for name in "abcd"]
    log = ran(cuda, clock, turns_of(cuda, calls, marked=2, mode=mode, after=after))
    marks = [log.index("mark 0"), log.index("mark 1")]
    assert [log[:at].count("zero_ flush") for at in marks] == [2, 4]
    assert log[marks[0] - 1] == ("record(6)" if mode == "device" else "add_ digest")
    assert log[marks[1] - 1] == ("record(12)" if mode == "device" else "add_ digest")
    queued = ["4 queued", "last", "4 queued, all"] if mode == "device" else ["last"]
    assert log[marks[1] + 1 :] == [*queued, "wait"]
    clock.readings()
    # The write that empties L2, which takes one microsecond here, and five of digests.
    assert clock.around_us() == (6.0 if mode == "device" else 0.0)


def test_a_warm_call_is_made_twice_and_nothing_comes_between(cuda: FakeCuda, clock: CudaClock) -> None:
    log = ran(cuda, clock, turns_of(cuda, [call_of(cuda, "a")], caches="warm"))
    assert log == [
        "begin",
        "before 0",
        "add_ a",
        "record(1)",
        "add_ a",
        "record(2)",
        "after 0 a",
        "record(3)",
        "1 queued",
        "last",
        "1 queued, all",
        "wait",
    ]


@pytest.mark.parametrize("mode", ["device", "host"])
def test_where_caches_are_left_as_they_are_nothing_is_done_about_them(
    cuda: FakeCuda, clock: CudaClock, mode: str
) -> None:
    log = ran(cuda, clock, turns_of(cuda, [call_of(cuda, "a")] * 2, caches="left", mode=mode))
    assert log.count("add_ a") == 2
    assert "zero_ flush" not in log


def test_by_the_hosts_clock_the_device_is_waited_for_before_and_after(cuda: FakeCuda, clock: CudaClock) -> None:
    log = ran(cuda, clock, turns_of(cuda, [call_of(cuda, "a")] * 2, mode="host"))
    turn = ["zero_ flush", "wait", "add_ a", "wait"]
    assert log == ["begin", "before 0", *turn, "after 0 a", "before 1", *turn, "after 1 a", "last", "wait"]
    assert clock.readings()[0] == clock.readings()[1]
    assert len(clock.readings()[0]) == 2


def test_before_a_loop_limits_are_set_back_and_the_device_is_woken(
    cuda: FakeCuda, runtime: FakeRuntime, clock: CudaClock
) -> None:
    clock.get_ready(turns_of(cuda, [None]))
    # An event is made by the driver when it is first recorded: not in a loop.
    assert cuda.log == ["record(1)", "record(2)", "record(3)", "reset L2", "sleep 2000000", "wait"]
    clock.run(turns_of(cuda, [None]))
    cuda.log.clear()
    clock.get_ready(turns_of(cuda, [None]))  # it has not had the time to fall asleep
    assert cuda.log == ["reset L2", "wait"]
    runtime.limits |= {5: 128, 6: 32 << 20}  # as a submission sets them
    cuda.log.clear()
    clock.get_ready(turns_of(cuda, [None]))
    assert cuda.log == ["limit 5 64", "limit 6 0", "reset L2", "wait"]
    # What the device does not know is no error of anybody's.
    clock._memory.check_errors("a call")


def test_free_blocks_of_this_device_are_poisoned_and_no_others(
    cuda: FakeCuda, memory: CudaMemory, runtime: FakeRuntime
) -> None:
    def segment(device: int, address: int, *blocks: tuple[str, int]) -> dict[str, Any]:
        return {
            "device": device,
            "address": address,
            "blocks": [{"state": state, "size": size} for state, size in blocks],
        }

    cuda.segments = [
        segment(0, 1000, ("active_allocated", 24), ("inactive", 8), ("active_pending_free", 16), ("inactive", 512)),
        segment(1, 5000, ("inactive", 8)),
    ]
    cuda.log.clear()
    memory.poison([256, 0])
    assert cuda.log == ["fill_ 256", "fill_ 256", "wait", "memset 1024 0xff 8", "memset 1048 0xff 512"]
    cuda.log.clear()
    memory.poison([])
    assert cuda.log == []


def test_an_error_that_nobody_asked_about_belongs_to_its_call(
    cuda: FakeCuda, memory: CudaMemory, runtime: FakeRuntime
) -> None:
    runtime.error = 9
    with pytest.raises(Failure, match="invalid configuration argument") as caught:
        memory.check_errors("the call")
    assert caught.value.evidence["cuda_error"] == "cudaErrorInvalidConfiguration"
    memory.check_errors("the next one")
    runtime.error = 9
    memory.settle()  # and one from before a call is not of that call
    memory.check_errors("the call after that")


class FakePage:
    """In place of the page as a device sees it: the key is there when the loop may begin, and a root is kept."""

    root = b""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    def wait_for_key(self) -> torch.Tensor:
        self._log.append("wait for key")
        return torch.tensor([KEY])

    def put_root(self, root: torch.Tensor) -> None:
        self._log.append("root")
        self.root = root.numpy().tobytes()


class Wire:
    """The grader's end: says `go` when the worker says that it is ready. With a key, unless its device waits for it."""

    held = False

    def __init__(self, cuda: FakeCuda, page_fd: int) -> None:
        self.sent: list[dict[str, Any]] = []
        self._cuda, self._page_fd = cuda, page_fd
        self.at_ready: Callable[[], None] = lambda: None

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        self._cuda.log.append(message["type"])
        self.at_ready()
        threading.Timer(0.05, self._go).start()

    def _go(self) -> None:
        if not self.held:
            os.pwrite(self._page_fd, KEY.to_bytes(8, sys.byteorder), 8)
        os.pwrite(self._page_fd, b"12345678", 0)

    def take_descriptors(self) -> list[int]:
        return [os.dup(self._page_fd)]


@pytest.mark.parametrize(("count", "held"), [(1, True), (2, True), (1, False)])
def test_inputs_can_be_read_only_once_the_loop_has_begun(
    cuda: FakeCuda, clock: CudaClock, count: int, held: bool
) -> None:
    page_fd = os.memfd_create("page")
    os.ftruncate(page_fd, 4096)
    wire = Wire(cuda, page_fd)
    wire.held = held
    runner = Runner(wire)  # type: ignore[arg-type]
    runner._clock, runner._memory = clock, clock._memory
    runner.take_page({})
    page = FakePage(cuda.log)
    runner._page_of_device = lambda: page  # type: ignore
    inputs = [torch.randn(48) for _ in range(count)]
    pool = masked(tuple((each,) for each in inputs), KEY, HostMasker())
    specs = [TensorSpec("float32", (48,))]
    runner._values["pool"], runner._inputs["pool"] = pool, [each for (each,) in pool]
    seen = []

    def model(x: torch.Tensor) -> torch.Tensor:
        cuda.log.append("call")
        seen.append(x.clone())
        return x * 2

    runner._models["main"] = model
    order = {
        **{
            "model": "main",
            "kind": "calls",
            "inputs": "pool",
            "masked": True,
            "held": held,
            "seeds": (),
            "turns": count,
        },
        **{"specs": [spec.to_json() for spec in specs], "mode": "device" if held else "host", "caches": "cold"},
        **{"sealed": True, "restore_buffers": False, "outputs": "out", "marked": 0},
    }

    def at_ready() -> None:
        assert not any(torch.equal(masked_, plain) for (masked_,), plain in zip(pool, inputs, strict=True))
        assert "call" not in cuda.log

    wire.at_ready = at_ready
    cuda.log.clear()
    began = time.monotonic()
    answer = runner.time(order)
    assert time.monotonic() - began > 0.04
    ready = cuda.log.index("ready")
    # The memory of outputs is poisoned, and the device is waited for, before the loop may begin.
    assert cuda.log[:ready].count("fill_ 192") == count + 1
    assert cuda.log[ready - 1] == "wait"
    after = cuda.log[ready:]
    unmasked = [at for at, what in enumerate(after) if "xor" in what]
    assert after.index("call") > max(unmasked)
    assert ("wait for key" in after) == held
    assert not held or after.index("wait for key") < min(unmasked)
    assert after.count("zero_ flush") == after.count("call") == count
    # What the seal is made of is queued before the device is waited for, and before the grader lets it go on.
    assert os.pread(page_fd, 8, 56) == (count if held else 0).to_bytes(8, sys.byteorder)
    assert os.pread(page_fd, 8, 40) == (b"12345678" if held else bytes(8))
    assert after[-2:] == [f"copy_ {count * 16}", "wait"]
    assert all(torch.equal(got, wanted) for got, wanted in zip(seen, inputs, strict=True))
    assert answer["type"] == "ran"
    assert runner.ticket == b"12345678".hex()
    digests = Digests(HostHasher(), specs, count)
    for number, each in enumerate(inputs):
        digests.add(number, flat_bytes(each * 2))
    digests.end()
    assert answer["seal"] == seal(digests.roots).hex() == os.pread(page_fd, 16, 24).hex()
    assert os.pread(page_fd, 8, 16) == b"12345678"
    # Of a call that is alone the device says itself what its output was.
    assert page.root == (digests.roots.numpy().tobytes() if held and count == 1 else b"")
    cuda.log.append("wait")  # events are read in `times`, after what else is asked of the device
    told = runner.times(order)
    assert len(told["elapsed_us"]) == len(told["host_us"]) == len(told["outputs"]) == count
    # A single output is copied on the spot: the copy is what it was when the call had returned.
    assert [len(runner._calls[f"out{turn}"].early) for turn in range(count)] == [1 if count == 1 else 0] * count
    os.close(page_fd)
