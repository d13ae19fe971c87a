"""The hash of tiles.cu and the stream of masks.cu once more, in numpy and from their descriptions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

THREADS = 128
IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
KEYED, PARENT = 16, 4
Words = npt.NDArray[np.uint32]

_NEXT = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
"""What takes the place of each word of a message in the round after."""

_MIXED = (
    *((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)),
    *((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)),
)
"""Words of a state that are mixed, in this order."""


def hash_tile(data: bytes, number: int, nbytes: int) -> bytes:
    """16 bytes for tile `number` of a message of `nbytes` bytes, of which the tile's are `data`."""
    key = np.array(IV, dtype=np.uint32)
    key[0] ^= np.uint32(nbytes & 0xFFFFFFFF)
    key[1] ^= np.uint32(nbytes >> 32)
    values = np.repeat(key[None], THREADS, axis=0)
    thread = np.arange(THREADS, dtype=np.uint32)
    per_round = 64 * THREADS
    for first in range(0, len(data), per_round):
        part = data[first : first + per_round]
        busy = min(THREADS, -(-len(part) // 16))
        filled = np.frombuffer(part.ljust(per_round, b"\0"), dtype=np.uint32).reshape(4, THREADS, 4)
        messages = filled.transpose(1, 0, 2).reshape(THREADS, 16)
        values[:busy] = compressed(values[:busy], messages[:busy], number, thread[:busy], KEYED)
    while (half := len(values) // 2) > 0:
        messages = np.concatenate([values[:half], values[half:]], axis=1)
        values = compressed(np.repeat(key[None], half, axis=0), messages, number, thread[:half] * 0, KEYED | PARENT)
    return values[0, :4].tobytes()


def mask_stream(key: int, number: int, nbytes: int) -> bytes:
    """The first bytes of what is put over a tensor of that number."""
    blocks = -(-nbytes // (64 * THREADS))
    at = np.arange(blocks * THREADS, dtype=np.uint64)
    messages = np.zeros((len(at), 16), dtype=np.uint32)
    messages[:, :3] = key & 0xFFFFFFFF, key >> 32, number
    low, high = (at & np.uint64(0xFFFFFFFF)).astype(np.uint32), (at >> np.uint64(32)).astype(np.uint32)
    values = np.repeat(np.array(IV, dtype=np.uint32)[None], len(at), axis=0)
    words = np.stack(_after_rounds(values, messages, low, high, KEYED), axis=1)
    both = np.concatenate([words[:, :8] ^ words[:, 8:], words[:, 8:] ^ values], axis=1)
    placed = both.reshape(blocks, THREADS, 4, 4).transpose(0, 2, 1, 3)
    return placed.tobytes()[:nbytes]


def compressed(values: Words, messages: Words, low: int, high: Words, flags: int) -> Words:
    """BLAKE3's compression of messages [n, 16] of 64 bytes into values [n, 8]; `low` and `high` are the counter."""
    v = _after_rounds(values, messages, np.full(len(values), low, dtype=np.uint32), high, flags)
    return np.stack([v[place] ^ v[place + 8] for place in range(8)], axis=1)


def _after_rounds(values: Words, messages: Words, low: Words, high: Words, flags: int) -> list[Words]:
    v = [*values.T.copy(), *(np.full(len(values), word, dtype=np.uint32) for word in IV[:4])]
    v += [low, high, *(np.full(len(values), w, np.uint32) for w in (64, flags))]
    m = list(messages.T)
    for _ in range(7):
        for number, places in enumerate(_MIXED):
            mix(v, *places, m[2 * number], m[2 * number + 1])
        m = [m[place] for place in _NEXT]
    return v


def mix(v: list[Words], a: int, b: int, c: int, d: int, x: Words, y: Words) -> None:
    """BLAKE3's G, on four words of the state and two of the message."""
    for word, first, second in ((x, 16, 12), (y, 8, 7)):
        v[a] = v[a] + v[b] + word
        v[d] = turned(v[d] ^ v[a], first)
        v[c] = v[c] + v[d]
        v[b] = turned(v[b] ^ v[c], second)


def turned(words: Words, by: int) -> Words:
    """To the right, by so many bits."""
    return (words >> np.uint32(by)) | (words << np.uint32(32 - by))
