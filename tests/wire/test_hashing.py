"""Our own kernels: what they compute, that they compile, and on a GPU that they are what they say."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from tile_reference import IV, hash_tile, mask_stream

from harness.machine import kernel_image
from harness.machine.device import DeviceError, open_device
from harness.machine.kernel_image import SOURCES, compiled, hasher_for, image_for, masker_for
from harness.wire.digest import Digests, Passing, tile_bytes
from harness.wire.hashing import HostHasher
from harness.wire.mask import HostMasker
from harness.wire.transfer import TensorSpec, flat_bytes

SIZES = (0, 1, 15, 16, 17, 2047, 2048, 2049, 6149, 8191, 8192, 8193, 16_384, 16_389, 65_536, 70_001)
_ROOT = (1 << 32) - 1


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_the_kernel_s_arithmetic_is_the_one_described(tmp_path: Path) -> None:
    library = tmp_path / "kernels.so"
    source = Path(__file__).with_name("kernels_on_host.cpp")
    subprocess.run(["g++", "-O2", "-shared", "-fPIC", f"-I{SOURCES[0].parent}", "-o", library, source], check=True)
    found, said, value = ctypes.CDLL(str(library)), (ctypes.c_uint32 * 4)(), (ctypes.c_uint32 * 8)()
    # BLAKE3 of 64 bytes is one compression: a chunk's first and last message, and the root of the tree.
    found.compress((ctypes.c_uint32 * 8)(*IV), bytes(range(64)), 0, 0, 1 | 2 | 8, value)
    assert bytes(value).hex() == "4eed7141ea4a5cd4b788606bd23f46e212af9cacebacdc7d1f4c6dc7f2511b98"
    for size in SIZES:
        data = random.randbytes(size)
        for unit in (1, 2, 4, 16):
            placed = ctypes.create_string_buffer(size + 64)
            at = -ctypes.addressof(placed) % 32 + unit % 16
            ctypes.memmove(ctypes.addressof(placed) + at, data, size)
            where = ctypes.c_void_p(ctypes.addressof(placed) + at)
            found.hash_tile(where, ctypes.c_uint64(size), unit, 7, ctypes.c_uint64(12_345_678_901), said)
            assert bytes(said) == hash_tile(data, 7, 12_345_678_901)
    key, words = 0x123456789ABCDEF, (ctypes.c_uint32 * 16)()
    stream = mask_stream(key, 3, 2 * 8192)
    for thread in (0, 1, 127, 128, 255):
        found.stream(ctypes.c_uint64(key), 3, ctypes.c_uint64(thread), words)
        block, t = divmod(thread, 128)
        places = [8192 * block + 16 * (128 * k + t) for k in range(4)]
        assert bytes(words) == b"".join(stream[place : place + 16] for place in places)


@pytest.mark.parametrize("arch", ["8.0", "9.0", "10.0"])
def test_they_compile(arch: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    assert compiled(b"\n".join(path.read_bytes() for path in SOURCES), arch)[:4] == b"\x7fELF"


def test_what_does_not_compile_is_told() -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    with pytest.raises(DeviceError, match=r"can't be compiled for 9\.0: .*error"):
        compiled(b"nothing of the kind", "9.0")


def test_they_are_compiled_once_and_a_damaged_one_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    made: list[str] = []
    monkeypatch.setattr(kernel_image, "compiled", lambda _, arch: made.append(arch) or b"image")
    for damaged in (False, False, True, False):
        if damaged:
            (path,) = (tmp_path / "kernels").glob("*.cubin")
            path.write_bytes(path.read_bytes()[:-1])
        kernel_image._image.cache_clear()
        assert kernel_image._image("9.0") == b"image"
    kernel_image._image.cache_clear()
    assert made == ["9.0", "9.0"]
    assert [path.suffix for path in (tmp_path / "kernels").iterdir()] == [".cubin"]


def test_a_cpu_needs_none() -> None:
    device = open_device("cpu")
    assert image_for(device) == b""
    assert isinstance(hasher_for(device), HostHasher)
    assert isinstance(masker_for(device), HostMasker)


@pytest.mark.gpu
def test_on_a_gpu_hashes_are_those_of_the_description() -> None:
    hasher = hasher_for(open_device("cuda"))
    for size in (*SIZES, 1 << 20, (1 << 20) + 5):
        data = random.randbytes(size)
        tensor = torch.frombuffer(bytearray(data) or bytearray(1), dtype=torch.uint8)[:size].cuda()
        step = tile_bytes(size)
        tiles = [hash_tile(data[at : at + step], at // step, size) for at in range(0, size, step)]
        digests = Digests(hasher, [TensorSpec.of(tensor)], 2)
        digests.add(1, tensor)
        digests.end()
        assert digests.tiles[1].cpu().numpy().tobytes() == b"".join(tiles)
        assert digests.roots[1].cpu().numpy().tobytes() == hash_tile(b"".join(tiles), _ROOT, 16 * len(tiles))


@pytest.mark.gpu
def test_on_a_gpu_pieces_have_the_hash_of_the_whole() -> None:
    hasher = hasher_for(open_device("cuda"))
    leaves = [torch.randn(300_001, device="cuda"), torch.randn(77, device="cuda").half()[1:]]
    specs = [TensorSpec.of(leaf) for leaf in leaves]
    digests, passing = Digests(hasher, specs, 1), Passing(hasher, specs)
    for leaf in leaves:
        digests.add(0, flat_bytes(leaf))
    digests.end()
    pieces = [
        (number, first, flat_bytes(leaf)[first : first + 100_096])
        for number, leaf in enumerate(leaves)
        for first in range(0, leaf.nbytes, 100_096)
    ]
    assert len(list(passing.through(pieces))) == len(pieces)
    assert torch.equal(passing.root(), digests.roots[0].cpu())


@pytest.mark.gpu
def test_on_a_gpu_a_tensor_that_begins_anywhere_has_the_hash_of_its_bytes() -> None:
    hasher = hasher_for(open_device("cuda"))
    whole = torch.frombuffer(bytearray(random.randbytes(150_000)), dtype=torch.uint8).cuda()
    for first in (1, 2, 4, 8, 16):
        part = whole[first : first + 140_001]
        found = torch.zeros(3, 2, dtype=torch.int64, device="cuda")
        hasher.tiles(part, 5, 65_536, 10_000_000, found)
        data = part.cpu().numpy().tobytes()
        tiles = [hash_tile(data[65_536 * k : 65_536 * (k + 1)], 5 + k, 10_000_000) for k in range(3)]
        assert found.cpu().numpy().tobytes() == b"".join(tiles)


@pytest.mark.gpu
def test_on_a_gpu_masks_are_those_of_the_description() -> None:
    masker, value = masker_for(open_device("cuda")), 0x123456789ABCDEF
    key = masker.key(value)
    for size in (*SIZES, (1 << 20) + 5):
        for first in (0, 1, 8):  # a tensor may begin anywhere
            data = random.randbytes(size)
            whole = torch.zeros(size + 32, dtype=torch.uint8, device="cuda")
            part = whole[first : first + size]
            part.copy_(torch.frombuffer(bytearray(data) or bytearray(1), dtype=torch.uint8)[:size])
            masker.put_on(part, 3, key)
            under = bytes(one ^ other for one, other in zip(data, mask_stream(value, 3, size), strict=True))
            assert part.cpu().numpy().tobytes() == under
            masker.put_on(part, 3, key)
            assert part.cpu().numpy().tobytes() == data
            assert int(whole.count_nonzero()) == int(part.count_nonzero())  # and nothing beside it
