"""Seeds of one grading, all from one number, none of which can be told from another.

The number has two halves. The upper one is drawn before the submission runs and seeds the parameters, which a
submission sees anyway. The lower one is drawn after the submission was constructed, so nothing that runs earlier can
depend on it, and at 64 bits it can't be found from the inputs that it made.
"""

from __future__ import annotations

import hashlib
import secrets


class Seeds:
    """The source of every seed of a grading."""

    def __init__(self, number: int | None = None) -> None:
        """`number` repeats an earlier grading; None draws a fresh one."""
        self._given = number
        self._upper = secrets.randbits(64) if number is None else number >> 64
        self._lower: int | None = None
        self._scope = ""

    def within(self, name: str) -> Seeds:
        """The seeds of one of several parts of a grading, such as a workload: no two parts share one."""
        inner = Seeds(self.number)
        inner._lower, inner._scope = self._lower, f"{self._scope}{name}/"
        return inner

    def draw(self) -> None:
        """Draw the secret half; to be called once the submission is constructed."""
        if self._lower is None:
            self._lower = secrets.randbits(64) if self._given is None else self._given & ((1 << 64) - 1)

    @property
    def number(self) -> int | None:
        """What repeats this grading; None as long as it is not drawn."""
        return None if self._lower is None else (self._upper << 64) | self._lower

    def parameters(self) -> int:
        """The seed of both models' construction."""
        return _derive(self._upper, "parameters", 0)

    def of(self, purpose: str, index: int) -> int:
        """The seed for a purpose, such as the inputs of trial 3. Raises RuntimeError before `draw`."""
        if self._lower is None:
            raise RuntimeError("a secret seed was asked for before the submission was constructed")
        return _derive((self._upper << 64) | self._lower, self._scope + purpose, index)


def _derive(number: int, purpose: str, index: int) -> int:
    text = f"{number}:{purpose}:{index}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1  # torch takes 63 bits gladly
