"""Reports without a grading: the example of docs/report.md, made to be about something else."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from benchmarks.serving.rig import ROOT

DEVICE_NAME = "NVIDIA H200"


def example() -> dict[str, Any]:
    """An accepted and timed one."""
    text = (ROOT / "docs" / "report.md").read_text()
    found: dict[str, Any] = json.loads(re.findall(r"```json\n(.*?)```", text, re.DOTALL)[0])
    found["device"] |= {"kind": "cuda", "name": DEVICE_NAME}
    return found


def about(report: dict[str, Any], work: Mapping[str, Any], median_us: float) -> dict[str, Any]:
    """The report, on what an agent was given."""
    median = {"median_us": median_us, "ci95_us": [0.99 * median_us, 1.01 * median_us]}
    timing = {**report["timing"], "candidate": {**report["timing"]["candidate"], **median}}
    problem = {"id": work["problem"], "version": work["problem_version"], "workload": work["workload"] or "default"}
    return {
        **report,
        "mode": work["mode"],
        "timing": timing if work["mode"] == "run" else None,
        "problem": {**report["problem"], **problem},
        "submission": {
            "path": None,
            "name": "submission.py",
            "sha256": hashlib.sha256(work["source"].encode()).hexdigest(),
        },
    }
