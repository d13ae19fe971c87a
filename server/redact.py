"""A report as a solver may see it.

Left out is what would help to fool the grader, or belongs to whoever runs it: the seed; values that were expected, and
those that were returned beside them, because the error between the two is shown; the grader's own tracebacks; what else
runs on the machine. Figures of the comparison stay: how many elements are wrong, where, by how much.
"""

from __future__ import annotations

import math
from typing import Any

_SECRET = frozenset({"seed", "worst_value", "worst_expected", "own_check", "other_processes", "processes"})
_OF_VALUES = frozenset({"output.values", "output.timed_values", "output.not_repeatable"})


def for_solver(report: dict[str, Any]) -> dict[str, Any]:
    """The JSON document of a report, without those; the argument stays as it is."""
    shown: dict[str, Any] = _without(report, _SECRET)
    shown["submission"] = {**shown["submission"], "path": None}
    shown["warnings"] = [_without_names(each) for each in shown["warnings"]]
    reason = shown["reason"]
    evidence = reason.get("evidence") or {}
    if reason["code"] in _OF_VALUES:
        evidence = {key: value for key, value in evidence.items() if key not in ("got", "expected")}
        ranks = [each["name"] for each in report.get("workloads", ())]
        message = _values_message(reason["code"], evidence, ranks)
        shown["reason"] = {**reason, "message": message, "evidence": evidence}
    elif reason["code"] == "device.unsteady":
        shown["reason"] = {**reason, "message": _UNSTEADY.format(evidence.get("measured_again", "several"))}
    elif reason["code"].startswith("judge."):
        evidence = {key: value for key, value in evidence.items() if key != "traceback"}
        shown["reason"] = {**reason, "evidence": evidence}
    return shown


def _without(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {
            key: _reasons(item) if key == "why" else _without(item, names)
            for key, item in value.items()
            if key not in names
        }
    if isinstance(value, list):
        return [_without(item, names) for item in value]
    return value


def _reasons(why: Any) -> Any:
    """What was unsteady, without the names of processes that came."""
    if not isinstance(why, list):
        return why
    return ["another process" + _CAME if isinstance(each, str) and each.endswith(_CAME) else each for each in why]


def _without_names(warning: dict[str, Any]) -> dict[str, Any]:
    return {**warning, "message": _SHARED} if warning["code"] == "device.shared" else warning


_CAME = " came onto the device"
_SHARED = "Others have the device open as well; what they do there while a submission is timed makes its times longer."
_UNSTEADY = (
    "The outputs are right, and the device was not steady enough to time them, in {} blocks. This is not the "
    "submission's fault: hand it in again when the device has nothing else to do."
)


_BEGINNINGS = {
    "output.values": "",
    "output.timed_values": "A timed call returned another result than the reference, after the untimed ones were "
    "right: results must not be kept from call to call. ",
    "output.not_repeatable": "The same input gave a right result and then a wrong one: look for a race, such as a "
    "missing __syncthreads, or blocks that read what others write. ",
}


def _values_message(code: str, evidence: dict[str, Any], ranks: list[str]) -> str:
    """The grader's own sentence names the values, so another one is made from the figures."""
    path, outside, shape = evidence.get("path", "output"), evidence.get("outside"), evidence.get("shape")
    if outside is None or shape is None:
        message = f"{path} is not what the reference returns."
    else:
        index = "".join(f"[{number}]" for number in evidence.get("worst_index") or [])
        message = (
            f"{path} differs from the reference in {outside} of {math.prod(shape)} elements, farthest at "
            f"{path}{index}. {evidence.get('reading') or ''}"
        )
    if (workload := evidence.get("workload")) in ranks:
        message += f" This was with the workload {workload!r}, one of {len(ranks)} that rank."
    elif workload:
        message += f" This was at the further sizes that the problem checks, its workload {workload!r}."
    return (_BEGINNINGS[code] + message).strip()
