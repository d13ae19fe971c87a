"""What a grading does on its own side, done once on next to nothing: for a process that has to be quick with its first.

Torch loads each of its kernels onto a GPU when it is first launched. For all those that inputs, expected outputs,
comparisons and the audit take that is half a second, which nobody has to wait for if it is done ahead.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import torch

from harness.audit.accuracy import Accuracy, Answered
from harness.audit.precision import Collected
from harness.audit.probes import KINDS, OWN
from harness.check.compare import compare
from harness.check.oracle import Oracle
from harness.load.problem import Problem
from harness.machine.device import Device
from harness.machine.kernel_image import hasher_for, masker_for
from harness.seeds import Seeds
from harness.wire.digest import Passing, seal
from harness.wire.mask import masked
from harness.wire.transfer import flat_bytes

_TINY = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(64, 64))

    def forward(self, x):
        return torch.relu(x @ self.weight) + 0.1 * x


def get_inputs():
    return [torch.randn(256, 64)]


def get_init_inputs():
    return []
"""


def rehearse(on: Device) -> None:
    """Make a tiny reference's inputs and outputs, and look at outputs that are almost its own, on a device."""
    device = torch.device(on.torch_name)
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        path = Path(folder) / "tiny.py"
        path.write_text(_TINY)
        problem = Problem.load(path)
    seeds = Seeds()
    seeds.draw()
    oracle = Oracle(problem, problem.workload(None, on.kind), device)
    oracle.construct(oracle.init_inputs(1), 1)
    accuracy = Accuracy(problem.spec, oracle, seeds, device)
    for number, kind in enumerate((OWN, *KINDS)):
        make = partial(accuracy.inputs, kind, number, number)
        inputs, again = make(), make()
        if inputs is None or again is None:
            continue
        masked((tuple(inputs),), number, masker_for(on))
        expected = oracle.expected_of(again, number)
        sample = accuracy.sample(expected, number)
        ours = Collected(sample, expected)
        pieces = [
            (leaf, 0, flat_bytes(each.flat * (1.0 + torch.finfo(each.flat.dtype).eps)))
            for leaf, each in enumerate(expected.leaves)
        ]
        passing = Passing(hasher_for(on), expected.specs)
        for piece in passing.through(pieces):
            ours.add(*piece)
        seal(passing.root())
        compare(expected, pieces, number)
        accuracy.add(Answered(kind, inputs, number, expected, sample, ours, make))
    accuracy.release()
