"""A reference that runs here and fails in the process in which it is timed: the problem's fault, nobody else's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tiny import REFERENCE

from harness import ProblemError, Report

RIGHT = REFERENCE.replace("Model", "ModelNew")
HURRIED = "[limits]\ncall_s = 2\n[workloads.default]\ntrials = 1\n"


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("raise RuntimeError('tired')", "call: tired"),
        ("import os; os._exit(0)", "exit code 0"),
        ("import time; time.sleep(1e6)", "no answer within 2 s"),
    ],
)
def test_it_is_not_blamed_on_the_submission(graded: Callable[..., Report], statement: str, says: str) -> None:
    # The module's name tells the two processes apart, as an author's mistake would without meaning to.
    broken = f"        if __name__ == 'reference':\n            {statement}\n        return torch"
    reference = REFERENCE.replace("        return torch", broken)
    with pytest.raises(ProblemError, match=r"The reference of doubled_relu can't be timed .*; correct it") as caught:
        graded(RIGHT, reference=reference, toml=HURRIED, mode="run")
    assert says in str(caught.value)
