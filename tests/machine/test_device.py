"""Which device a name means, what is known of it, and how it is reached; CUDA is played by fakes."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.machine import device as module
from harness.machine import place
from harness.machine.device import DeviceError, list_devices, open_device

UUIDS = ("11111111-aaaa-bbbb-cccc-000000000000", "22222222-aaaa-bbbb-cccc-000000000000")


class NVMLError(Exception):
    """As pynvml's."""


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """An NVML whose order of devices is the opposite of CUDA's."""
    fake = types.ModuleType("pynvml")
    minors = {f"GPU-{UUIDS[0]}": 3, f"GPU-{UUIDS[1]}": 0}

    def handle(uuid: str) -> str:
        if uuid not in minors:
            raise NVMLError("not found")
        return uuid

    def max_clock(_: str, which: str) -> int:
        return {"sm": 1980, "memory": 3201}[which]

    members: dict[str, Any] = {
        "NVMLError": NVMLError,
        "NVML_CLOCK_SM": "sm",
        "NVML_CLOCK_MEM": "memory",
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "580.159",
        "nvmlSystemGetCudaDriverVersion": lambda: 12080,
        "nvmlDeviceGetHandleByUUID": handle,
        "nvmlDeviceGetMinorNumber": minors.__getitem__,
        "nvmlDeviceGetMaxClockInfo": max_clock,
        "nvmlDeviceGetMemoryBusWidth": lambda _: 6144,
    }
    for name, value in members.items():
        setattr(fake, name, value)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


@pytest.fixture
def dev(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A /dev of a machine with GPUs."""
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-modeset", "nvidia0", "nvidia3", "nvidia10", "null"):
        (tmp_path / name).touch()
    monkeypatch.setattr(place, "_DEV", tmp_path)
    return tmp_path


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch, nvml: types.ModuleType, dev: Path) -> None:
    """A torch that sees two GPUs."""

    def properties(index: int) -> types.SimpleNamespace:
        return types.SimpleNamespace(
            name="NVIDIA H200",
            major=9,
            minor=0,
            multi_processor_count=132,
            total_memory=150_000_000_000,
            uuid=UUIDS[index],
            L2_cache_size=62_914_560,
            shared_memory_per_block=49152,
            shared_memory_per_block_optin=232448,
            shared_memory_per_multiprocessor=233472,
            regs_per_multiprocessor=65536,
            max_threads_per_multi_processor=2048,
            max_threads_per_block=1024,
            warp_size=32,
        )

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A torch that sees none, on a machine without a driver."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(module, "_NVIDIA_PROC", tmp_path / "none")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_cpu():
    device = open_device("cpu")
    assert (device.kind, device.index, device.uuid, device.torch_name) == ("cpu", None, None, "cpu")
    assert device.nodes == ()
    assert device.arch is None
    assert device.info.name
    assert device.info.cores
    assert device.info.memory_bytes
    assert device.info.torch == torch.__version__


def test_auto_is_the_cpu_without_cuda(no_gpu):
    assert open_device("auto") == open_device("cpu")
    assert [device.kind for device in list_devices()] == ["cpu"]


@pytest.mark.parametrize(("spec", "index"), [("auto", 0), ("cuda", 0), ("cuda:0", 0), ("cuda:1", 1), (" CUDA:1 ", 1)])
def test_names_of_cuda_devices(two_gpus, spec, index):
    device = open_device(spec)
    assert device.torch_name == f"cuda:{index}"
    assert device.uuid == f"GPU-{UUIDS[index]}"


def test_a_cuda_device_is_described_by_torch_and_nvml(two_gpus):
    info = open_device("cuda:1").info
    assert (info.sms, info.l2_bytes, info.compute_capability) == (132, 62_914_560, "9.0")
    assert info.shared_memory_per_block_optin_bytes == 232448
    assert (info.driver, info.sm_clock_max_mhz, info.memory_clock_max_mhz) == ("580.159", 1980, 3201)
    assert info.memory_bus_bits == 6144
    assert info.driver_cuda == "12.8"
    assert (info.shared_memory_per_block_bytes, info.shared_memory_per_sm_bytes) == (49152, 233472)
    assert (info.registers_per_sm, info.max_threads_per_sm) == (65536, 2048)
    assert (info.max_threads_per_block, info.warp_size) == (1024, 32)
    assert open_device("cuda:1").arch == "9.0"


@pytest.mark.parametrize(("index", "minor"), [(0, 3), (1, 0)])
def test_the_node_follows_the_minor_number_and_not_cudas_index(two_gpus, dev, index, minor):
    assert open_device(f"cuda:{index}").nodes == tuple(
        str(dev / name) for name in ("nvidiactl", "nvidia-uvm", f"nvidia{minor}")
    )


@pytest.mark.parametrize("words", ["NVIDIA UNIX x86_64 Kernel Module", "NVIDIA UNIX Open Kernel Module for x86_64"])
def test_without_nvml_every_node_is_named_and_nothing_else_is_lost(two_gpus, dev, nvml, monkeypatch, words):
    def fail() -> None:
        raise NVMLError("library not found")

    monkeypatch.setattr(nvml, "nvmlInit", fail)
    monkeypatch.setattr(module, "_NVIDIA_PROC", dev)
    (dev / "version").write_text(f"NVRM version: {words}  570.86.10  Wed Jan 1 2025\nGCC version: 13.2.0\n")
    device = open_device("cuda")
    assert [Path(node).name for node in device.nodes] == ["nvidiactl", "nvidia-uvm", "nvidia0", "nvidia3", "nvidia10"]
    assert device.info.driver == "570.86.10"
    assert device.info.sm_clock_max_mhz is None
    assert device.info.sms == 132


def test_a_question_that_nvml_refuses_costs_that_answer_only(two_gpus, nvml, monkeypatch):
    def refuse(*_: object) -> None:
        raise NVMLError("not supported")

    monkeypatch.setattr(nvml, "nvmlDeviceGetMaxClockInfo", refuse)
    info = open_device("cuda").info
    assert info.sm_clock_max_mhz is None
    assert info.driver == "580.159"


def test_every_device_is_listed_with_the_cpu_last(two_gpus):
    assert [device.torch_name for device in list_devices()] == ["cuda:0", "cuda:1", "cpu"]


@pytest.mark.parametrize(
    "spec", ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1.0", "cpu:0", "cuda:99999999999", "0"]
)
def test_a_name_that_means_nothing(two_gpus, spec):
    assert_sentence(error_of(spec), "auto, cpu, cuda")


def test_an_index_that_is_out_of_range(two_gpus):
    assert_sentence(error_of("cuda:2"), "cuda:0 to cuda:1")


def test_cuda_on_a_machine_without_a_driver(no_gpu, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert_sentence(error_of("cuda:3"), "no NVIDIA driver", "--device cpu")


def test_cuda_with_a_torch_that_has_none(no_gpu, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    assert_sentence(error_of("cuda"), "built without CUDA", "--device cpu")


def test_cuda_with_every_device_hidden(no_gpu, dev, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(module, "_NVIDIA_PROC", dev)
    (dev / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert_sentence(error_of("cuda"), "CUDA_VISIBLE_DEVICES is '7'")


def test_cuda_that_does_not_start(no_gpu, dev, monkeypatch):
    def fail() -> None:
        raise RuntimeError("CUDA unknown error - this may be due to an incorrectly set up environment.\nmore")

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(module, "_NVIDIA_PROC", dev)
    (dev / "version").write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159  Release Build\n")
    monkeypatch.setattr(torch.cuda, "init", fail)
    assert_sentence(error_of("cuda"), "CUDA unknown error", "nvidia-smi")


def test_a_device_that_fails_when_asked(two_gpus, monkeypatch):
    def fail(_: int) -> None:
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered\nmore lines")

    monkeypatch.setattr(torch.cuda, "get_device_properties", fail)
    assert_sentence(error_of("auto"), "uncorrectable ECC error", "nvidia-smi")


@pytest.mark.gpu
def test_a_real_device_is_fully_described():
    device = open_device("cuda")
    described = device.info.model_dump()
    assert [name for name, value in described.items() if value is None] == []
    assert re.fullmatch(r"GPU-[0-9a-f-]{36}", device.uuid or "")
    assert any(re.fullmatch(r"/dev/nvidia\d+", node) for node in device.nodes)
    assert all(Path(node).exists() for node in device.nodes)


@pytest.mark.gpu
def test_describing_a_device_creates_no_context_on_it():
    code = """
import ctypes
from harness.machine.device import list_devices
list_devices()
driver, device, flags, active = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_uint(), ctypes.c_int(-1)
assert driver.cuDeviceGet(ctypes.byref(device), 0) == 0
assert driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active)) == 0
print(active.value)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "0\n", done.stderr


def error_of(spec: str) -> str:
    """What opening that device says."""
    with pytest.raises(DeviceError) as caught:
        open_device(spec)
    return str(caught.value)


def assert_sentence(text: str, *parts: str) -> None:
    """One plain line, with all of these parts."""
    assert re.fullmatch(r"[^\n]+\.", text), text
    for part in parts:
        assert part in text
