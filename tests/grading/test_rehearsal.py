"""What a process does before its first grading has to be what a grading does."""

from __future__ import annotations

import pytest

from harness.audit import accuracy
from harness.audit.probes import KINDS, OWN
from harness.grading import rehearsal
from harness.machine.device import open_device


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_all_kinds_of_input_are_judged_and_found_right(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = []
    judge = accuracy.Accuracy._judged

    def seen(self: accuracy.Accuracy, answer: accuracy.Answered) -> object:
        found = judge(self, answer)
        judged.append((answer.kind, [leaf.below for leaf in found]))
        return found

    monkeypatch.setattr(accuracy.Accuracy, "_judged", seen)
    rehearsal.rehearse(open_device(device))
    assert judged == [(kind, [False]) for kind in (OWN, *KINDS)]
