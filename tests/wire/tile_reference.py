"""The hash of tiles.cu once more, in numpy and from its description: 256 threads side by side."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

THREADS = 256
Words = npt.NDArray[np.uint32]


def hash_tile(data: bytes, number: int, nbytes: int) -> bytes:
    """16 bytes for tile `number` of a message of `nbytes` bytes, of which the tile's are `data`."""
    start = (0x243F6A88, 0x85A308D3 ^ number, 0x13198A2E ^ (nbytes & 0xFFFFFFFF), 0x03707344 ^ (nbytes >> 32))
    state = [np.full(THREADS, word, dtype=np.uint32) for word in start]
    state[0] ^= np.arange(THREADS, dtype=np.uint32)
    state = permuted(state, 8)
    words = np.frombuffer(data + bytes(-len(data) % 16), dtype=np.uint32).reshape(-1, 4)
    for first in range(0, len(words), THREADS):
        taken = words[first : first + THREADS]
        some = permuted([each[: len(taken)] ^ taken[:, word] for word, each in enumerate(state)], 4)
        for each, fresh in zip(state, some, strict=True):
            each[: len(taken)] = fresh
    while (half := len(state[0]) // 2) > 0:
        left = permuted([each[:half] for each in state], 8)
        state = permuted([one ^ each[half:] for one, each in zip(left, state, strict=True)], 8)
    return b"".join(each.tobytes() for each in state)


def permuted(state: list[Words], passes: int) -> list[Words]:
    """Chaskey's permutation."""
    a, b, c, d = (each.copy() for each in state)
    for _ in range(passes):
        a += b
        b = turned(b, 5) ^ a
        a = turned(a, 16)
        c += d
        d = turned(d, 8) ^ c
        a += d
        d = turned(d, 13) ^ a
        c += b
        b = turned(b, 7) ^ c
        c = turned(c, 16)
    return [a, b, c, d]


def turned(words: Words, by: int) -> Words:
    """To the left, by so many bits."""
    return (words << np.uint32(by)) | (words >> np.uint32(32 - by))
