"""What of a trace is the call's: the harness's own work never shows. Events are written after Kineto's format."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.wire.frames import WireError
from harness.worker.trace import _answer, operators, timeline, without_own
from harness.workers import claims


def launch(at: float, correlation: int, name: str = "cudaLaunchKernel") -> dict[str, Any]:
    return {"cat": "cuda_runtime", "name": name, "ts": at, "dur": 3.0, "args": {"correlation": correlation}}


def ran(at: float, correlation: int, name: str, cat: str = "kernel") -> dict[str, Any]:
    args = {"correlation": correlation, "stream": 7, "grid": [8, 1, 1], "block": [128, 1, 1]}
    return {"cat": cat, "name": name, "ts": at, "dur": 10.0, "args": args}


WAIT = {"cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "ts": 900.0, "dur": 5.0, "args": {"correlation": 99}}
OWN = [launch(0, 1), launch(5, 2), ran(20, 1, "spin"), ran(40, 2, "fill"), WAIT]


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["name"] for event in events]


def test_what_is_queued_before_a_call_and_the_wait_after_it_are_left_out():
    call = [launch(10, 3), ran(60, 3, "mine"), launch(14, 4, "cudaMemsetAsync"), ran(80, 4, "Memset", "gpu_memset")]
    device, host = without_own(OWN, [*OWN, *call])
    assert names(device) == ["mine", "Memset"]
    assert names(host) == ["cudaLaunchKernel", "cudaMemsetAsync"]


def test_a_submissions_own_wait_and_own_fill_are_kept():
    wait = {**WAIT, "ts": 500.0}
    call = [launch(10, 3), ran(60, 3, "fill"), wait]
    device, host = without_own(OWN, [*OWN, *call])
    assert names(device) == ["fill"]
    assert names(host) == ["cudaLaunchKernel", "cudaDeviceSynchronize"]


def test_a_kernel_on_another_stream_that_runs_before_ours_is_the_calls():
    device, _ = without_own(OWN, [*OWN, launch(10, 3), ran(15, 3, "early")])
    assert names(device) == ["early"]


def test_without_launches_in_the_trace_what_ran_first_is_left_out():
    bare = [event for event in OWN if event["cat"] == "kernel"]
    device, host = without_own(bare, [*bare, ran(60, 3, "mine")])
    assert (names(device), host) == (["mine"], [])


def test_an_empty_call_leaves_nothing():
    assert without_own(OWN, OWN) == ([], [])


def test_operators_keep_an_extensions_functions_and_none_of_pythons():
    def python(name: str, where: str) -> dict[str, Any]:
        return {"cat": "python_function", "name": name, "ts": 1.0, "dur": 1.0, "args": {"CallFrom": where}}

    function = "<built-in method scan of pybind11_builtins.pybind11_detail_function_record_v1 object at 0x7f>"
    older = "<built-in method scan of PyCapsule object at 0x7f>"
    events = [
        {"cat": "cpu_op", "name": "aten::mm", "ts": 0.0, "dur": 1.0, "args": {}},
        python(function, "answer.py:12"),
        python(older, "answer.py:13"),
        python(function.replace("scan", "kineto_available"), "torch/profiler/profiler.py:400"),
        python("<built-in function len>", "answer.py:14"),
        python("answer.py(3): forward", "answer.py:15"),
    ]
    assert names(operators(events)) == ["aten::mm", "extension: scan", "extension: scan"]


def test_the_profiler_itself_gives_operators_of_a_call_on_a_cpu_and_nothing_of_what_prepares_it():
    values, prepared = torch.ones(64, 64), []
    answer = timeline(lambda: values @ values, lambda: prepared.append(values + 1), on_gpu=False)
    found = claims.parse({**answer, "ticket": "", "cpu_us": 0.0, "wall_us": 0.0})
    assert isinstance(found, claims.Timeline)
    assert found.note == ""
    assert "aten::mm" in found.names
    assert "aten::add" not in found.names
    assert prepared


def test_a_traced_call_becomes_a_claim_with_its_launches():
    args = {"stream": 7, "grid": [8, 2, 1], "block": [128, 1, 1], "registers per thread": 40, "shared memory": 2048}
    call = [launch(10, 3), {**ran(60, 3, "mine"), "args": {**args, "correlation": 3}}]
    copied = {**ran(80, 4, "Memcpy DtoH", "gpu_memcpy"), "args": {"bytes": 64, "stream": 7, "correlation": 4}}
    answer = _answer(*without_own(OWN, [*OWN, *call, launch(12, 4, "cudaMemcpyAsync"), copied]))
    found = claims.parse({**answer, "ticket": "", "cpu_us": 0.0, "wall_us": 0.0})
    assert isinstance(found, claims.Timeline)
    kernel, copy = found.device
    assert (found.names[kernel.name], kernel.kind, kernel.start_us, kernel.us) == ("mine", "kernel", 50.0, 10.0)
    assert (kernel.grid, kernel.block, kernel.registers, kernel.shared_bytes) == ([8, 2, 1], [128, 1, 1], 40, 2048)
    assert (found.names[copy.name], copy.kind, copy.bytes, copy.grid) == ("Memcpy DtoH", "copy", 64, [])
    assert [found.names[event.name] for event in found.host] == ["cudaLaunchKernel", "cudaMemcpyAsync"]


def test_an_event_without_a_name_is_no_answer():
    answer = {**_answer([], [WAIT]), "ticket": "", "cpu_us": 0.0, "wall_us": 0.0}
    with pytest.raises(WireError):
        claims.parse({**answer, "names": []})


def test_more_events_than_a_trace_holds_are_counted(monkeypatch):
    monkeypatch.setattr("harness.worker.trace._EVENTS_MAX", 3)
    answer = _answer([ran(10.0 * number, number, f"k{number}") for number in range(5)], [])
    assert len(answer["device"]) == 3
    assert (answer["cut"], answer["cut_us"]) == (2, 20.0)
