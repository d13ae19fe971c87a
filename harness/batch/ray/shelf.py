"""Artifacts on their way from the node that built them to the one that grades: by content key, through Ray's store.

    node: cache --take--> Artifact ... --Ray's object store--> Artifact --keep--> another node's cache

The driver has only references to them. A reference that is dropped frees the memory, and costs a build at most.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.build.cache import BuildCache

_LARGEST = 256 << 20
"""Bytes of a library that travels; a larger one is built again where it is needed."""
_HELD = 1 << 30
"""Bytes that all references together may hold in the object store."""


@dataclass(frozen=True)
class Artifact:
    """One finished build."""

    key: str
    meta: dict[str, Any] = field(repr=False)
    library: bytes | None = field(repr=False)
    """None for a build that failed: that, too, need not be found out twice."""


def take(keys: Iterable[str]) -> list[Artifact]:
    """From this machine's cache what is there of those keys."""
    cache, found = BuildCache(), []
    for key in keys:
        entry = cache.lookup(key)
        if entry is None or (entry.library is not None and entry.meta["library_bytes"] > _LARGEST):
            continue
        found.append(Artifact(key, entry.meta, None if entry.library is None else entry.library.read_bytes()))
    return found


def keep(artifacts: Iterable[Artifact]) -> None:
    """Put them into this machine's cache."""
    cache = BuildCache()
    for artifact in artifacts:
        with cache.lock(artifact.key):
            if cache.lookup(artifact.key) is not None:
                continue
            if artifact.library is None:
                cache.publish(artifact.key, None, artifact.meta)
                continue
            with cache.staging() as folder:
                library = folder / "library"
                library.write_bytes(artifact.library)
                cache.publish(artifact.key, library, artifact.meta)


class Shelf:
    """References to bundles of artifacts, found by the keys in them; the longest unused goes first."""

    def __init__(self) -> None:
        self._bundles: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def put(self, keys: Sequence[str], bundle: Any, size: int) -> None:
        """`size` is what the bundle takes in the store."""
        for key in keys:
            self._drop(key)
            self._bundles[key] = (bundle, size // len(keys))
            self._bytes += size // len(keys)
        while self._bytes > _HELD:
            self._drop(next(iter(self._bundles)))

    def find(self, keys: Iterable[str]) -> list[Any]:
        """The bundles in which those keys are, each once."""
        found: list[Any] = []
        for key in keys:
            if key in self._bundles:
                self._bundles.move_to_end(key)
                bundle = self._bundles[key][0]
                found += [] if any(bundle is each for each in found) else [bundle]
        return found

    def forget(self, keys: Iterable[str]) -> None:
        """Their bundles are lost."""
        for key in keys:
            self._drop(key)

    def _drop(self, key: str) -> None:
        if key in self._bundles:
            self._bytes -= self._bundles.pop(key)[1]
