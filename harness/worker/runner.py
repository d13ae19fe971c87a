"""The orders that a worker carries out: import, construct, move tensors, call.

Values have names: `init` (constructor arguments), `state` (parameters), and one for the input and output of each call.
An output is kept twice, as the submission returned it (`live`) and as it was on the caller's stream at the moment of
return (`early`): work that was not finished by then shows as a difference.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import gc
import importlib.util
import inspect
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch

from harness.wire.digest import Digests, seal
from harness.wire.frames import Channel
from harness.wire.generators import seed_torch
from harness.wire.hashing import GpuHasher, Hasher, HostHasher
from harness.wire.kernels import Kernels
from harness.wire.mask import GpuMasker, HostMasker, Masker, mask
from harness.wire.stopwatch import Page
from harness.wire.transfer import ByteStream, TensorSpec, flat_bytes, is_dense, packed
from harness.wire.tree import TreeError, put_together, take_apart
from harness.wire.window import Window, open_window
from harness.worker.clock import CpuClock, CudaClock, Turns
from harness.worker.device_page import DevicePage
from harness.worker.entries import DestinationModel, FunctionModel, bound, find
from harness.worker.failure import Failure
from harness.worker.memory import CpuMemory, CudaMemory, aside
from harness.worker.trace import timeline, trace


@dataclass
class _Call:
    """What a call left behind."""

    live: list[torch.Tensor]
    early: list[torch.Tensor] = field(default_factory=list)


class _Kept(NamedTuple):
    """An output taken apart, and what is held of it."""

    value: tuple[Any, list[torch.Tensor]]
    call: _Call


class Runner:
    """One submission and everything that was done with it."""

    def __init__(self, channel: Channel) -> None:
        self.path: Path | None = None
        """The file that the submission was imported from."""
        self.ticket = ""
        """Of the order that is to be answered next."""
        self._channel = channel
        self._device = torch.device("cpu")
        self._memory: CpuMemory | CudaMemory = CpuMemory()
        self._clock: CpuClock | CudaClock | None = None
        self._hasher: Hasher = HostHasher()
        self._masker: Masker = HostMasker()
        self._kernels: Kernels | None = None
        self._entry: Any = None
        self._style = "model"
        self._outputs: list[str] = []
        self._models: dict[str, Any] = {}
        self._buffers: dict[str, dict[str, torch.Tensor]] = {}
        self._window: Window | None = None
        self._page: Page | None = None
        self._device_page: DevicePage | None = None
        self._values: dict[str, Any] = {}
        self._inputs: dict[str, list[torch.Tensor]] = {}
        self._calls: dict[str, _Call] = {}
        self._stream: ByteStream | None = None
        self._timed: list[_Kept] = []

    def touch(self, order: dict[str, Any]) -> dict[str, Any]:
        """Make a context on a CUDA device, where the grader holds its lock."""
        device = torch.device(order["device"])
        if device.type == "cuda":
            torch.cuda.set_device(device)
        torch.zeros(1, device=device)
        return {"type": "done"}

    def open_device(self, order: dict[str, Any]) -> dict[str, Any]:
        """Choose the device, and make all that the clock needs on it; the grader holds its lock."""
        self._device = torch.device(order["device"])
        if self._device.type == "cuda":
            self.touch(order)
            self._memory = CudaMemory(self._device)
            self._clock = CudaClock(self._device, order["flush_bytes"], self._memory)
            self._kernels = Kernels(base64.b64decode(order["kernel_image"]), self._device)
            self._hasher, self._masker = GpuHasher(self._kernels), GpuMasker(self._kernels)
        else:
            self._clock = CpuClock(order["flush_bytes"])
        return {"type": "done"}

    def look(self, _order: dict[str, Any]) -> dict[str, Any]:
        """Use the context that was made some time ago."""
        assert self._clock is not None
        self._clock.null()
        self._memory.check_errors("a look at the device")
        return {"type": "done"}

    def import_submission(self, order: dict[str, Any]) -> dict[str, Any]:
        """Import the submission's text as a module and find what stands for the model in it."""
        # A real file, since Triton and others read the source of what they compile.
        folder = Path(tempfile.mkdtemp(prefix="submission-"))
        path = self.path = folder / order["filename"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(order["source"], encoding="utf-8")
        for beside, text in order["files"].items():
            (folder / beside).parent.mkdir(parents=True, exist_ok=True)
            (folder / beside).write_text(text, encoding="utf-8")
        if order["files"]:
            sys.path.insert(0, str(folder))
        name = path.stem if path.stem.isidentifier() else "submission"
        if name in sys.modules or importlib.util.find_spec(name) is not None:
            # A submission called random.py must not stand where the library is looked for.
            name = f"submission_{name}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        sys.argv = [str(path)]
        os.chdir(folder)
        spec.loader.exec_module(module)
        self._entry = find(module, order["entry"], order["style"])
        self._style, self._outputs = order["style"], order["outputs"]
        return {"type": "done"}

    def construct(self, order: dict[str, Any]) -> dict[str, Any]:
        """Construct the model on the CPU from a seed, then move it, as the reference is built on the other side."""
        assert self._entry is not None
        arguments = self._values.pop("init")
        if self._style != "model":
            self._models[order["model"]] = self._function(order)
            return {"type": "constructed", "state": []}
        try:
            inspect.signature(self._entry).bind(*arguments)
        except TypeError as error:
            raise Failure(
                "signature", f"{self._entry.__name__} can't be constructed with the problem's arguments: {error}"
            ) from error
        except ValueError:
            pass  # a class written in C has no signature to look at: calling it will tell
        seed_torch(order["seed"], self._device)
        model = self._entry(*arguments)
        if isinstance(model, torch.nn.Module):
            model = model.to(self._device)
        elif not callable(model):
            raise Failure("signature", f"{self._entry.__name__} makes an object that can't be called")
        if order["compiled"]:
            # In place: a compiled module's state would have other names.
            model.compile()
        self._memory.check_errors("the constructor")
        self._models[order["model"]] = model
        state = [] if not isinstance(model, torch.nn.Module) else list(model.state_dict().items())
        return {
            "type": "constructed",
            "state": [
                {"key": key, **TensorSpec.of(value).to_json()}
                for key, value in state
                if isinstance(value, torch.Tensor)
            ],
        }

    def _function(self, order: dict[str, Any]) -> FunctionModel | DestinationModel:
        """A function, as the model that it stands for."""
        if self._style == "function":
            return FunctionModel(self._compiled() if order["compiled"] else self._entry, self._outputs)
        specs = [(name, TensorSpec.from_json(spec)) for name, spec in order["destinations"]]
        return DestinationModel(self._entry, specs, self._device)

    def _compiled(self) -> Any:
        return torch.compile(self._entry)

    def load_state(self, order: dict[str, Any]) -> dict[str, Any]:
        """Take over the reference's parameters, by name and strictly."""
        tensors = self._values.pop("state")
        self._models[order["model"]].load_state_dict(dict(zip(order["keys"], tensors, strict=True)), strict=True)
        return {"type": "done"}

    def take_window(self, order: dict[str, Any]) -> dict[str, Any]:
        """Map the shared memory whose descriptor came with the order; it replaces an earlier one."""
        (fd,) = self._channel.take_descriptors()
        if self._window is not None:
            self._window.close()
        self._window = open_window(order["kind"], fd, order["size"], self._device)
        return {"type": "done"}

    def take_page(self, order: dict[str, Any]) -> dict[str, Any]:
        """Map the page that is shared with the grader's stopwatch."""
        (fd,) = self._channel.take_descriptors()
        if self._device_page is not None:
            self._device_page.close()
        self._page, self._device_page = Page(fd), None
        os.close(fd)
        return {"type": "done"}

    def put(self, order: dict[str, Any]) -> dict[str, Any]:
        """Make room for a value; its bytes follow with `fill`."""
        self._stream = None
        self._values.pop(order["name"], None)
        self._inputs.pop(order["name"], None)
        specs = [TensorSpec.from_json(spec) for spec in order["specs"]]
        device = torch.device("cpu") if order["on_cpu"] else self._device
        # Some room is taken first and freed afterwards: values of the same size are not always at the same address.
        held = aside([spec.nbytes for spec in specs], device)
        leaves = [spec.empty(device) for spec in specs]
        del held
        self._values[order["name"]] = put_together(order["skeleton"], list(leaves))
        self._inputs[order["name"]] = leaves
        self._stream = ByteStream([flat_bytes(leaf, in_storage_order=True) for leaf in leaves])
        return {"type": "done"}

    def fill(self, order: dict[str, Any]) -> dict[str, Any]:
        """Take the bytes from `low` to `high` of the current stream out of the window."""
        assert self._window is not None
        assert self._stream is not None
        self._stream.from_window(order["low"], order["high"], self._window.view(order["half"]))
        return {"type": "done"}

    def get(self, order: dict[str, Any]) -> dict[str, Any]:
        """Make a value the current stream; its bytes are asked for with `drain`."""
        if order["which"] == "input":
            self._stream = ByteStream([flat_bytes(leaf, in_storage_order=True) for leaf in self._inputs[order["name"]]])
        else:
            call = self._calls[order["name"]]
            leaves = call.live if order["which"] == "live" else call.early
            self._stream = ByteStream([flat_bytes(leaf, in_storage_order=order["stored"]) for leaf in leaves])
        return {"type": "done"}

    def drain(self, order: dict[str, Any]) -> dict[str, Any]:
        """Put the bytes from `low` to `high` of the current stream into the window."""
        assert self._window is not None
        assert self._stream is not None
        self._stream.to_window(order["low"], order["high"], self._window.view(order["half"]))
        return {"type": "done"}

    def drop(self, order: dict[str, Any]) -> dict[str, Any]:
        """Forget values, calls, early copies of outputs, models."""
        self._stream = None
        for name in order["names"]:
            self._values.pop(name, None)
            self._inputs.pop(name, None)
            self._calls.pop(name, None)
        for name in order["early"]:
            self._calls[name].early = []
        for name in order["models"]:
            self._models.pop(name, None)
            self._buffers.pop(name, None)
        if order["models"]:
            self._memory.release()
        return {"type": "done"}

    def call(self, order: dict[str, Any]) -> dict[str, Any]:
        """Call a model on a value that was put, and keep what it returns, twice, where it is to be kept."""
        arguments = self._values[order["input"]]
        model = self._models[order["model"]]
        self._memory.poison(order["poison"])
        seed_torch(order["seed"], self._device)
        self._memory.settle()
        call_model = bound(model, arguments)
        with torch.no_grad():
            returned = call_model()
            value, call = self._keep_early(returned) if order["keep"] else self._keep(returned)
        del returned
        self._memory.check_errors("the call")
        if order["keep"]:
            self._calls[order["output"]] = call
        return {"type": "returned", "outputs": [_describe(value)]}

    def trace(self, order: dict[str, Any]) -> dict[str, Any]:
        """Make calls on a value under the profiler."""
        call = bound(self._models[order["model"]], self._values[order["input"]])
        self._memory.settle()
        with torch.no_grad():
            call()  # what only a first call does is not looked at
            answer = trace(call, order["calls"])
        self._memory.check_errors("a traced call")
        return answer

    def timeline(self, order: dict[str, Any]) -> dict[str, Any]:
        """Make one call on a value under the profiler, in just the way of a timed one, and tell it event by event."""
        assert self._clock is not None
        call = bound(self._models[order["model"]], self._values[order["input"]])
        prepare = functools.partial(self._clock.queue, order["queue_us"])
        self._memory.settle()
        with torch.no_grad(), _no_collection():
            call()  # what only a first call does is not looked at
            self._memory.settle()
            cpu_us, wall_us = self._clock.busy_us(call)
            answer = timeline(call, prepare, on_gpu=self._device.type == "cuda")
        self._memory.check_errors("a traced call")
        return {**answer, "cpu_us": cpu_us, "wall_us": wall_us}

    def counted(self, order: dict[str, Any]) -> dict[str, Any]:
        """Make one call on a value between marks that a profiler around this process waits for."""
        call = bound(self._models[order["model"]], self._values[order["input"]])
        self._memory.settle()
        with torch.no_grad():
            call()
            self._memory.settle()
            if self._device.type == "cuda":
                torch.cuda.cudart().cudaProfilerStart()
                try:
                    call()
                    torch.cuda.synchronize()
                finally:
                    torch.cuda.cudart().cudaProfilerStop()
        self._memory.check_errors("a profiled call")
        return {"type": "done"}

    def scribble(self, order: dict[str, Any]) -> dict[str, Any]:
        """Overwrite inputs with 0 and the leaves of outputs with 1, 2, 3, ...: what shares memory then shows it."""
        leaves = [leaf for name in order["outputs"] for leaf in self._calls[name].live]
        with torch.inference_mode():  # the only mode in which tensors from all modes may be written to
            for number, leaf in enumerate(leaves, 1):
                # Of an expanded dimension all elements are the first one.
                single = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in leaf.stride())
                leaf.detach()[single].fill_(number)
            for name in order["inputs"]:
                for leaf in self._inputs[name]:
                    leaf.zero_()
        return {"type": "done"}

    def time(self, order: dict[str, Any]) -> dict[str, Any]:
        """Get the clock's loop ready, say so, and run it when the grader says `go`; see clock.py and loop.py.

        The grader's own clock runs from there, so the answer is given as soon as the loop has ended; `times` tells the
        rest. Of a single call the outputs are copied on the caller's stream, as in `call`. Of a loop they are only
        held, since a copy would be time of it, and a seal on all of them goes with the answer: outputs that nobody had
        computed by then can't have one.
        """
        assert self._clock is not None
        page = self._page
        assert page is not None
        if order["restore_buffers"]:
            self._restore_buffers(order["model"])
        specs = [TensorSpec.from_json(spec) for spec in order["specs"]]
        seeds, count, sealed = order["seeds"], order["turns"], order["sealed"]
        sizes = [spec.nbytes for spec in specs]
        self._timed = []
        # A loop has as many places for outputs as turns; a single call finds another each time as well.
        held = aside(sizes, self._device) if count == 1 else []
        self._memory.poison([])
        self._memory.refill(sizes, count)
        digests = Digests(self._hasher, specs, count if sealed else 0)
        pinned = self._device.type == "cuda"
        on_host = torch.empty(digests.roots.shape, dtype=torch.int64, device="cpu", pin_memory=pinned)

        key_given = 0

        def begin() -> None:
            key = self._page_of_device().wait_for_key() if order["held"] else None
            if order["masked"]:
                # A host that has the key knows it from the moment in which the clock runs.
                key = self._masker.key(key_given) if key is None else key
                mask(self._inputs[order["inputs"]], key, self._masker)

        def before(turn: int) -> None:
            if seeds:
                seed_torch(seeds[turn], self._device)

        def after(turn: int, result: Any) -> None:
            kept = self._keep_early(result) if count == 1 else self._keep(result)
            self._timed.append(kept)
            if sealed:
                # As they lie in memory: another order would take a copy, which is no work of the call's.
                for leaf in kept.call.live:
                    digests.add(turn, flat_bytes(leaf, in_storage_order=True))

        def mark(number: int) -> None:
            if order["mode"] == "device":
                self._page_of_device().mark(number)
            else:
                page.mark(number)

        def last() -> None:
            if sealed:
                digests.end()
                if order["held"] and count == 1:
                    self._page_of_device().put_root(digests.roots[0])
                on_host.copy_(digests.roots, non_blocking=True)

        ignored = order["kind"] in ("empty", "null")
        turns = Turns(
            self._calls_of(order, specs),
            order["mode"],
            order["caches"],
            begin,
            before,
            _forget if ignored else after,
            order["marked"],
            mark,
            last,
            lambda turns, whole: page.queued(turns, all_of_them=whole),
        )
        self._memory.settle()
        if order["held"]:
            self._page_of_device()
        self._clock.get_ready(turns)
        with torch.no_grad(), _no_collection():
            self._channel.send({"type": "ready", "ticket": self.ticket})
            # From here on, whatever is answered, a failure as well, is about what was ordered by the page.
            key_given, self.ticket = page.wait_for_go()
            self._clock.run(turns)
            said = seal(on_host)
            page.done(said)
        del held
        if order["kind"] == "probe":
            self._timed = []
        self._calls["roots"] = _Call(live=[digests.roots])
        return {"type": "ran", "seal": said.hex()}

    def _page_of_device(self) -> DevicePage:
        if self._device_page is None:
            assert self._page is not None
            assert self._kernels is not None
            self._device_page = DevicePage(self._page, self._kernels)
        return self._device_page

    def times(self, order: dict[str, Any]) -> dict[str, Any]:
        """What the last loop returned and read."""
        assert self._clock is not None
        self._memory.check_errors("a timed call")
        outputs = []
        if order["outputs"]:
            for turn, (value, call) in enumerate(self._timed):
                outputs.append(_describe(value))
                self._calls[f"{order['outputs']}{turn}"] = call
        self._timed = []
        elapsed_us, host_us = self._clock.readings()
        return {
            "type": "timed",
            "outputs": outputs,
            "elapsed_us": elapsed_us,
            "host_us": host_us,
            "around_us": self._clock.around_us(),
        }

    def _calls_of(self, order: dict[str, Any], specs: list[TensorSpec]) -> list[Any]:
        """What the turns of a loop call."""
        assert self._clock is not None
        turns = order["turns"]
        match order["kind"]:
            case "calls":
                model = self._models[order["model"]]
                return [bound(model, arguments) for arguments in self._values[order["inputs"]]]
            case "null":
                return [self._clock.null] * turns
            case "probe":
                sources = [_words(spec.empty(self._device).zero_()) for spec in specs]
                return [functools.partial(_flipped, sources)] * turns
            case _:
                return [None] * turns

    def _keep(self, returned: Any) -> _Kept:
        """Take an output apart and hold it."""
        try:
            skeleton, leaves = take_apart(returned, sort_keys=True)
        except TreeError as error:
            raise Failure("output", f"forward returned {error}") from error
        # Tensors that are not exactly tensors are not touched: their operators are the submission's.
        return _Kept((skeleton, leaves), _Call(live=[leaf for leaf in leaves if _is_plain(leaf)]))

    def _keep_early(self, returned: Any) -> _Kept:
        """The same, and copy it on the caller's stream, before anything waits for the device."""
        kept = self._keep(returned)
        if len(kept.call.live) == len(kept.value[1]):
            # What has gaps is handed over without them, so its copy has none either.
            kept.call.early = [packed(leaf, copy=True) for leaf in kept.call.live]
        return kept

    def _restore_buffers(self, name: str) -> None:
        """Set a model's buffers back to what they were at the first such call, so that calls do not build on each
        other."""
        model = self._models[name]
        if not isinstance(model, torch.nn.Module):
            return
        now = dict(model.named_buffers())
        if name not in self._buffers:
            self._buffers[name] = {key: buffer.clone() for key, buffer in now.items()}
        with torch.no_grad():
            for key, kept in self._buffers[name].items():
                if key in now and now[key].shape == kept.shape:
                    now[key].copy_(kept)


def _is_plain(leaf: torch.Tensor) -> bool:
    return type(leaf) in (torch.Tensor, torch.nn.Parameter) and leaf.layout is torch.strided and not vars(leaf)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Python's garbage collector would stop the loop for a tenth of a second, now in this one, now in that."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _forget(*_: object) -> None:
    """What a call of the clock's own returns."""


def _flipped(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """A call of our own with outputs as large as the submission's: the bits of these, the other way round.

    By a kernel: a copy may be made by a copy engine, which leaves other things in L2, and the next turn finds them.
    """
    return [torch.bitwise_not(tensor) for tensor in tensors]


def _words(tensor: torch.Tensor) -> torch.Tensor:
    """Its memory as integers, as large ones as it is made of."""
    data = flat_bytes(tensor, in_storage_order=True)
    return data if data.numel() % 4 else data.view(torch.int32)


def _describe(value: tuple[Any, list[torch.Tensor]]) -> dict[str, Any]:
    skeleton, leaves = value
    return {"value": skeleton, "leaves": [_claim(leaf) for leaf in leaves]}


def _claim(leaf: torch.Tensor) -> dict[str, Any]:
    plain = _is_plain(leaf)
    return {
        "kind": _kind(leaf)[:200],
        "plain": plain,
        "dtype": str(leaf.dtype).removeprefix("torch.") if plain else "",
        "shape": list(leaf.shape) if plain else [],
        "device": leaf.device.type if plain else "",
        "strides": TensorSpec.of(leaf).strides if plain else None,
        "copied": plain and (not is_dense(leaf) or leaf.is_conj() or leaf.is_neg()),
    }


def _kind(leaf: torch.Tensor) -> str:
    """Its type; for a torch.Tensor also what makes it more than that. Nothing else of a subclass may be touched."""
    kind = type(leaf)
    name = f"{kind.__module__}.{kind.__qualname__}".encode(errors="replace").decode()
    if kind is not torch.Tensor:
        return name
    if leaf.layout is not torch.strided:
        return f"{name} with the layout {leaf.layout}"
    return f"{name} with attributes of its own" if vars(leaf) else name
