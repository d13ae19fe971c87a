"""The table of rules, and which of their findings are told: five at most, what could gain most first."""

from __future__ import annotations

from harness.profiling import call_rules, kernel_rules
from harness.profiling.facts import Facts, Rule
from harness.profiling.result import Finding

MOST = 5
_LEAST = 0.02
"""Of a call: smaller gains are not worth a sentence."""

_LIBRARY = (
    "It is a library's kernel: do its work in one of your own, together with what comes before and after it, or call "
    "another function."
)

RULES: tuple[Rule, ...] = (
    call_rules.traffic,
    kernel_rules.uncoalesced,
    call_rules.launches,
    call_rules.waits,
    call_rules.copies,
    call_rules.allocations,
    kernel_rules.few_threads,
    kernel_rules.low_occupancy,
    kernel_rules.stalls,
    kernel_rules.bandwidth,
    kernel_rules.bank_conflicts,
    kernel_rules.spills,
    kernel_rules.idle_tensor_cores,
    kernel_rules.divergence,
    kernel_rules.tail,
    call_rules.near_the_floor,
    call_rules.cores,
    call_rules.operators,
)


def findings(facts: Facts) -> list[Finding]:
    """What the rules find, the largest estimated gain first; without an estimate last, in the order of the table.

    No gain reaches below the problem's floor. Of several kernels one rule tells the one that could gain most.
    """
    call = facts.profile.call
    most = max(0.0, call.us - (call.floor_us or 0.0))
    best: dict[str, Finding] = {}
    for rule in RULES:
        for found in rule(facts):
            before = best.get(found.code)
            if before is None or (found.gain_us or 0.0) > (before.gain_us or 0.0):
                best[found.code] = found
    ordered = sorted(best.values(), key=lambda found: (found.gain_us is None, -(found.gain_us or 0.0)))
    libraries = {kernel.name for kernel in facts.profile.kernels if not kernel.own}
    told = [_limited(_advised(found, libraries), most, call.us) for found in ordered]
    return [found for found in told if _worth_it(found)][:MOST]


def _advised(found: Finding, libraries: set[str]) -> Finding:
    """Nobody rewrites a library's kernel: what can be done is not to call it."""
    if found.kernel not in libraries or found.code == "compute.tensor_cores_idle":
        return found
    return found.model_copy(update={"advice": _LIBRARY})


def _limited(found: Finding, most_us: float, call_us: float) -> Finding:
    if found.gain_us is None or call_us <= 0:
        return found.model_copy(update={"gain_us": None, "gain": None})
    gain_us = max(0.0, min(found.gain_us, most_us))
    return found.model_copy(update={"gain_us": gain_us, "gain": gain_us / call_us})


def _worth_it(found: Finding) -> bool:
    return found.gain is None or found.gain >= _LEAST or found.code == "roofline.near"
