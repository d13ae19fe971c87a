"""A device's peaks: which of the figures counts, and how they are kept."""

from __future__ import annotations

import json
from pathlib import Path

import peaks_samples
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peaks_samples import CPU, H200

from harness.clock import peaks as module
from harness.clock import rates
from harness.clock.architectures import per_clock
from harness.clock.peaks import PIN_SHARE, RATES, Peaks, load, load_or_measure, measure, pin_bandwidth
from harness.machine.device import Device, DeviceError, open_device
from harness.machine.locks import DeviceLock

positive = st.floats(min_value=1e6, max_value=1e18)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "peaks"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Device]:
    """`measure` played by a fake; every call of it is noted."""
    calls: list[Device] = []

    def fake(device: Device, _: object = None) -> Peaks:
        calls.append(device)
        return peaks_samples.peaks(device.info, launch_us=float(len(calls)))

    monkeypatch.setattr(module, "measure", fake)
    return calls


def cpu() -> Device:
    """A CPU that costs nothing to look at."""
    return Device("cpu", None, None, CPU)


def test_the_published_peaks_of_an_h200_come_out():
    known = peaks_samples.peaks()
    assert known.fp32_flops == pytest.approx(66.9e12, rel=1e-3)
    assert known.fp64_flops == pytest.approx(66.9e12, rel=1e-3)
    # NVIDIA gives 494.7 and 989.5 TFLOP/s at 1.83 GHz; the highest clock is 1.98.
    assert known.tf32_flops == pytest.approx(494.7e12 * 1.98 / 1.83, rel=1e-3)
    assert known.fp16_flops == pytest.approx(989.5e12 * 1.98 / 1.83, rel=1e-3)
    assert known.special_ops == pytest.approx(132 * 16 * 1.98e9)
    assert pin_bandwidth(H200) == pytest.approx(4.917e12, rel=1e-3)
    assert set(known.source.values()) == {"derived"}


def test_the_reached_figure_counts_where_it_is_larger():
    known = peaks_samples.peaks(reached={**peaks_samples.REACHED, "bytes_per_s": 4.6e12, "fp32_flops": 7e13})
    assert (known.bytes_per_s, known.fp32_flops) == (4.6e12, 7e13)
    assert (known.source["bytes_per_s"], known.source["fp32_flops"]) == ("measured", "measured")
    assert known.source["tf32_flops"] == "derived"


@given(st.fixed_dictionaries(dict.fromkeys(("bytes_per_s", *RATES), positive)))
def test_no_peak_is_below_what_was_reached_or_what_the_units_do(reached):
    known, units = peaks_samples.peaks(reached=reached), per_clock("9.0")
    assert units is not None
    for name in RATES:
        assert getattr(known, name) >= max(reached[name], getattr(units, name) * 132 * 1.98e9)
    assert known.bytes_per_s >= max(reached["bytes_per_s"], PIN_SHARE * (pin_bandwidth(H200) or 0))


def test_an_architecture_without_a_bound_has_no_peak_of_operations_but_shows_what_it_reached():
    known = peaks_samples.peaks(H200.model_copy(update={"compute_capability": "99.0"}))
    assert [getattr(known, name) for name in RATES] == [None] * len(RATES)
    assert known.reached == peaks_samples.REACHED
    assert known.bytes_per_s > 0


def test_without_nvml_the_copy_counts_and_operations_have_no_bound():
    bare = {"sm_clock_max_mhz": None, "memory_clock_max_mhz": None, "memory_bus_bits": None}
    known = peaks_samples.peaks(H200.model_copy(update=bare))
    assert (known.bytes_per_s, known.source) == (4.3e12, {"bytes_per_s": "measured"})


def test_a_cpu_has_what_it_reached():
    known = peaks_samples.peaks(CPU)
    assert known.reached == {name: getattr(known, name) for name in ("bytes_per_s", *RATES)}
    assert set(known.source.values()) == {"measured"}


@pytest.mark.parametrize("capability", ["8.0", "8.6", "8.9", "9.0", "10.0", "12.0"])
def test_every_row_of_the_table_is_in_order(capability):
    units = per_clock(capability)
    assert units is not None
    assert 0 < units.special_ops < units.fp32_flops < units.tf32_flops < units.fp16_flops
    assert units.fp16_flops == 2 * units.tf32_flops


@pytest.mark.parametrize("capability", [None, "", "9", "7.5"])
def test_what_is_not_in_the_table(capability):
    assert per_clock(capability) is None


def test_the_second_call_comes_from_the_cache(measured):
    assert load(cpu()) is None
    first = load_or_measure(cpu())
    assert load_or_measure(cpu()) == load(cpu()) == first
    assert len(measured) == 1


def test_asking_again_measures_and_replaces(measured):
    load_or_measure(cpu())
    again = load_or_measure(cpu(), again=True)
    assert again.launch_us == 2
    assert load(cpu()) == again


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\x00", b"null", b"[]", b'{"device": "AMD EPYC"}'], ids=lambda content: repr(content)
)
def test_a_broken_file_is_measured_again(measured, cache, content):
    load_or_measure(cpu())
    (file,) = cache.iterdir()
    file.write_bytes(content)
    assert load_or_measure(cpu()).launch_us == 2
    assert load_or_measure(cpu()).launch_us == 2


@pytest.mark.parametrize(
    "change", [{"bytes_per_s": 0}, {"fp32_flops": -1}, {"recipe": 0}, {"kind": "cuda"}, {"more": 1}, {"launch_us": "x"}]
)
def test_a_file_that_makes_no_sense_is_measured_again(measured, cache, change):
    load_or_measure(cpu())
    (file,) = cache.iterdir()
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert load(cpu()) is None
    assert load_or_measure(cpu()).launch_us == 2


def test_another_driver_torch_or_device_is_another_file(measured):
    for change in ({}, {"torch": "2.12.0"}, {"driver": "590.1"}, {"name": "AMD Ryzen"}, {"cores": 64}):
        load_or_measure(Device("cpu", None, None, CPU.model_copy(update=change)))
    for uuid in ("GPU-1", "GPU-2"):
        load_or_measure(Device("cuda", 0, uuid, H200))
    assert len(measured) == 7


def test_a_file_appears_whole_and_leaves_nothing_beside_it(measured, cache):
    for _ in range(3):
        load_or_measure(cpu(), again=True)
    assert [path.suffix for path in cache.iterdir()] == [".json"]


def test_a_cache_that_cannot_be_written_only_costs_time(measured, cache):
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    assert load_or_measure(cpu()).launch_us == 1
    assert load_or_measure(cpu()).launch_us == 2


def test_what_the_device_refuses_is_said_in_a_sentence(monkeypatch):
    def fail(_: int | None) -> dict[str, float]:
        raise RuntimeError("out of memory. Tried to allocate 2.00 GiB.\nmore lines")

    monkeypatch.setattr(rates, "cpu_rates", fail)
    with pytest.raises(DeviceError, match=r"^cpu can't be measured: out of memory.*\.$"):
        measure(cpu())


def test_a_cpu_is_measured(monkeypatch):
    monkeypatch.setattr(rates, "_BUDGET_S", 0.0)
    monkeypatch.setattr(rates, "_CPU_COPY_BYTES", 1 << 20)
    monkeypatch.setattr(rates, "_LAUNCHES", 3)
    before = torch.get_float32_matmul_precision()
    known = measure(Device("cpu", None, None, CPU.model_copy(update={"l2_bytes": 1 << 18})))
    assert min(known.reached.values()) > 0
    assert known.reached.keys() == {"bytes_per_s", *RATES}
    assert known.event_offset_us == 0
    assert torch.get_float32_matmul_precision() == before
    assert Peaks.model_validate_json(known.model_dump_json()) == known


@pytest.mark.gpu
def test_a_gpu_is_measured_once(monkeypatch):
    device = open_device("cuda")
    before = torch.get_float32_matmul_precision()
    with DeviceLock(device.lock_name).held():  # what is kept is used by all gradings on this machine
        known = load_or_measure(device)
    assert min(known.reached.values()) > 0
    assert known.reached["tf32_flops"] > known.reached["fp32_flops"]
    assert known.reached["fp16_flops"] > known.reached["fp32_flops"]
    assert known.launch_us > 0
    assert known.event_offset_us >= 0
    assert torch.get_float32_matmul_precision() == before
    monkeypatch.setattr(module, "measure", lambda *_: pytest.fail("measured twice"))
    assert load_or_measure(device) == known


@pytest.mark.gpu
def test_no_gpu_reaches_more_than_its_units_and_pins_can():
    device = open_device("cuda")
    units, pins = per_clock(device.arch), pin_bandwidth(device.info)
    with DeviceLock(device.lock_name).held():
        known = measure(device)
    if pins is not None:
        assert known.reached["bytes_per_s"] <= pins
    if units is not None and device.info.sms is not None and device.info.sm_clock_max_mhz is not None:
        for name in ("fp64_flops", "fp32_flops", "tf32_flops", "fp16_flops"):
            most = getattr(units, name) * device.info.sms * device.info.sm_clock_max_mhz * 1e6
            assert known.reached[name] <= most, name
