"""`harness device`: what is there, its limits, its peaks."""

from __future__ import annotations

import json
from pathlib import Path

import peaks_samples
import pytest

from harness.clock import peaks as module
from harness.clock.peaks import Peaks
from harness.machine import device as devices
from harness.machine.device import Device

GPU = Device("cuda", 0, peaks_samples.H200.uuid, peaks_samples.H200)
CPU = Device("cpu", None, None, peaks_samples.CPU)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches and locks of the test's own."""
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path / "locks"))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine with one H200, and the devices that were measured on it."""
    measured: list[str] = []

    def measure(device: Device, _: object = None) -> Peaks:
        measured.append(device.torch_name)
        return peaks_samples.peaks(device.info)

    monkeypatch.setattr(devices, "list_devices", lambda: [GPU, CPU])
    monkeypatch.setattr(devices, "open_device", lambda _: GPU)
    monkeypatch.setattr(module, "measure", measure)
    return measured


def words(out: str) -> str:
    """The table's words, joined over line ends."""
    return " ".join(out.split())


def test_as_json_it_names_what_auto_means(harness):
    code, out, _ = harness("device", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["auto"] in ("cpu", "cuda:0")
    assert document["devices"][-1]["kind"] == "cpu"
    assert document["devices"][-1]["cores"] >= 1
    assert document["peaks"]["cpu"] is None
    assert {"name": "none", "unavailable": None} in document["sandboxes"]


@pytest.mark.parametrize("options", [[], ["--measure"]])
def test_the_table_fits(harness, gpu, options):
    code, out, _ = harness("device", *options)
    assert code == 0
    assert "torch" in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_limits_that_catch_people_are_shown(harness, gpu):
    _, out, _ = harness("device")
    for expected in (
        "48 KiB a block, unless cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)",
        "227 KiB at most",
        "65,536 an SM; 255 a thread",
        "1,024 threads; with so many, 64 registers a thread",
        "65,535 in y and in z",
        "228 KiB an SM, of which each block takes 1 KiB besides its own",
        "2,048 an SM at once, 64 warps of 32, in 32 blocks at most",
        "580.159, runs programs of CUDA 13.0 and older",
    ):
        assert expected in words(out)


def test_the_compilers_are_named_or_why_there_are_none(harness, gpu, monkeypatch):
    from harness.build import toolchain

    _, out, _ = harness("device", "--json")
    assert json.loads(out)["compilers"].keys() == {"c++", "nvcc", "missing"}

    def nothing() -> None:
        raise toolchain.MissingCompiler("g++", "There is no C++ compiler; install g++.")

    monkeypatch.setattr(toolchain, "discover", nothing)
    _, out, _ = harness("device")
    assert "There is no C++ compiler; install g++." in words(out)


def test_nothing_is_measured_unless_asked_for(harness, gpu):
    _, out, _ = harness("device")
    assert gpu == []
    assert words(out).count("not measured yet: harness device --measure") == 2


def test_peaks_are_measured_when_asked_for_and_shown_from_then_on(harness, gpu):
    code, asked, _ = harness("device", "--measure")
    assert (code, gpu) == (0, ["cuda:0", "cpu"])
    _, later, _ = harness("device")
    assert gpu == ["cuda:0", "cpu"]
    assert asked == later
    for expected in (
        "4.43 TB/s, 0.9 of the pins; a copy reached 4.3 TB/s",
        "66.9 TFLOP/s, units x clock; a product reached 51 TFLOP/s",
        "1.07 PFLOP/s",
        "11 GB/s, measured",
        "read 2.4 +- 0.1 us beside a kernel",
    ):
        assert expected in words(later)


def test_asking_again_measures_again(harness, gpu):
    harness("device", "--measure")
    harness("device", "--measure")
    assert len(gpu) == 4


def test_the_same_from_python(harness, gpu):
    from harness import Survey, survey

    _, out, _ = harness("device", "--json")
    assert Survey.model_validate_json(out) == survey()


def test_peaks_as_json_are_peaks(harness, gpu):
    _, out, err = harness("device", "--measure", "--json")
    document = json.loads(out)
    assert Peaks.model_validate(document["peaks"]["cuda:0"]) == peaks_samples.peaks()
    assert document["peaks"].keys() == {"cuda:0", "cpu"}
    assert err == ""
