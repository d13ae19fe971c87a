"""How many blocks the stop rule asks for, by how far samples are apart: no device, numbers drawn at random.

    python -m benchmarks.stop_rule [--runs 25] [--candidate 5] [--reference 20] [--step 0.032]

Samples are normal, `within` is their spread within a block and `between` that of the blocks, both as shares of the
time, rounded to the clock's step. Nothing ends for lack of time: what is printed is the number of blocks of each side,
of the 20 calls that a block has at most, after which both intervals are narrow enough; 40 blocks are the most.
"""

from __future__ import annotations

import argparse

import numpy as np

from harness.clock.plan import Goal, Plan

SPREADS = ((0.003, 0.0), (0.01, 0.002), (0.02, 0.003), (0.03, 0.005), (0.05, 0.01))
"""Within blocks and between them."""


def main() -> None:
    """Draw and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--candidate", type=float, default=5.0)
    parser.add_argument("--reference", type=float, default=20.0)
    parser.add_argument("--step", type=float, default=0.032)
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    print(f"{'within %':>9s}{'between %':>10s}{'median':>8s}{'90 %':>6s}{'most':>6s}  blocks of each side")
    for within, between in SPREADS:
        counts = [_blocks(rng, within, between, arguments) for _ in range(arguments.runs)]
        high = np.percentile(counts, 90)
        print(
            f"{100 * within:9.1f}{100 * between:10.1f}{np.median(counts):8.0f}{high:6.0f}{max(counts):6d}", flush=True
        )


def _blocks(rng: np.random.Generator, within: float, between: float, arguments: argparse.Namespace) -> int:
    """Blocks of each side until the rule says stop."""
    goal = Goal(budget_s=1e9)
    plan = Plan(goal, {"candidate": goal.block_s / 20, "reference": goal.block_s / 20})
    plan.step_us = {"candidate": arguments.step, "reference": arguments.step}
    times = {"candidate": arguments.candidate, "reference": arguments.reference}
    while not plan.done(0.0):
        for side, blocks in plan.blocks.items():
            middle = times[side] * (1 + between * rng.standard_normal())
            samples = middle * (1 + within * rng.standard_normal(plan.calls(side)))
            blocks.append(list(np.round(samples / arguments.step) * arguments.step))
    return len(plan.blocks["candidate"])


if __name__ == "__main__":
    main()
