"""What requests and answers look like, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

NEW_SUBMISSION: dict[str, Any] = {
    "problem": "selective_scan",
    "source": "import torch.nn as nn\n\n\nclass ModelNew(nn.Module):\n    ...\n",
    "device": "cuda",
    "mode": "run",
    "label": "one lane for each state",
    "file_name": "s6_v2.py",
}
_LINK = "/v1/submissions/6f1c0e3ad2b94c7710aa"
SUBMISSION: dict[str, Any] = {
    "id": "6f1c0e3ad2b94c7710aa",
    "problem": "selective_scan",
    "problem_version": "5cf6bd7a9c1e",
    "device": "cuda",
    "workload": None,
    "mode": "run",
    "label": "one lane for each state",
    "file_name": "s6_v2.py",
    "user": "ada",
    "source_sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "priority": 0,
    "state": "queued",
    "queue_place": 2,
    "waits_for": None,
    "attempts": 0,
    "created_at": "2026-11-29T20:15:03Z",
    "done_at": None,
    "verdict": None,
    "reason_code": None,
    "regrade_of": None,
    "links": {
        "self": _LINK,
        "events": f"{_LINK}/events",
        "source": f"{_LINK}/source",
        "log": f"{_LINK}/log",
        "page": "/submissions/6f1c0e3ad2b94c7710aa",
    },
    "report": None,
}
PROBLEM: dict[str, Any] = {
    "id": "selective_scan",
    "title": "Selective scan",
    "summary": "A state space model's scan with parameters that depend on the input.",
    "version": "5cf6bd7a9c1e",
}
DEVICE: dict[str, Any] = {
    "agent": "machine-1",
    "device": "cuda:0",
    "kind": "cuda",
    "name": "NVIDIA H200",
    "version": "0.1.0",
    "sandbox": "bubblewrap",
    "state": "idle",
    "why": None,
    "last_seen": "2026-11-29T20:15:03Z",
    "submission": None,
}
LEADERBOARD: dict[str, Any] = {
    "problem": "selective_scan",
    "problem_version": "5cf6bd7a9c1e",
    "workload": "default",
    "device": "NVIDIA H200",
    "boards": {"NVIDIA H200": ["default"]},
    "entries": [
        {
            "rank": 1,
            "tied": False,
            "user": "ada",
            "time_us": 1176.7,
            "ci95_us": [1175.5, 1177.3],
            "speedup": 128.0,
            "speedup_ci95": [120.0, 145.6],
            "fraction_of_floor": 0.027,
            "at": "2026-11-29T20:17:41Z",
            "warnings": [],
            "submission": None,
        }
    ],
}
HELLO: dict[str, Any] = {
    "name": "machine-1",
    "device": "cuda:0",
    "kind": "cuda",
    "device_name": "NVIDIA H200",
    "version": "0.1.0",
    "sandbox": "bubblewrap",
    "problems": {"selective_scan": "5cf6bd7a9c1e"},
}
WANTED: dict[str, Any] = {"agent_id": 3, "wait_s": 0}
RENEWAL: dict[str, Any] = {
    "first": 1,
    "events": [
        {"kind": "stage_started", "stage": "build"},
        {"kind": "stage_ended", "stage": "build", "seconds": 12.4},
    ],
}
GIVE_UP: dict[str, Any] = {"why": "the device is gone"}
PROBLEM_DOCUMENT: dict[str, Any] = {
    "type": "urn:kernel-harness:no-such-problem",
    "title": "Unprocessable Entity",
    "status": 422,
    "detail": "There is no such problem; selective_scan was probably meant.",
}

OF_SCHEMAS = {
    "NewSubmission": NEW_SUBMISSION,
    "SubmissionView": SUBMISSION,
    "SubmissionPage": {"items": [SUBMISSION], "next_cursor": None},
    "ProblemSummary": PROBLEM,
    "DeviceView": DEVICE,
    "LeaderboardView": LEADERBOARD,
    "Hello": HELLO,
    "Wanted": WANTED,
    "Renewal": RENEWAL,
    "GiveUp": GIVE_UP,
    "ProblemDocument": PROBLEM_DOCUMENT,
}
"""One for each of these schemas, by its name."""
