"""A grader of GPU kernels: hand it a problem and a submission, get a verdict with its evidence.

    from harness import grade
    report = grade("problems/selective_scan", "submissions/s6_v2.py")
    print(report.verdict, report.timing.speedup)

Names are looked up when they are used: this file is also read by the process that runs a submission, which must not
bring in the trusted side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.batch.reward import Reward, reward
    from harness.batch.training import Grader
    from harness.grading.grader import grade
    from harness.load.problem import Problem, ProblemError
    from harness.load.submission import Submission, SubmissionError
    from harness.machine.survey import Survey, survey
    from harness.profiling.result import Profile
    from harness.profiling.run import profile
    from harness.report import Report, Verdict
    from harness.sanitizing.findings import Sanitizing
    from harness.sanitizing.run import sanitize
    from harness.scaffold.write import ScaffoldError, new_problem, new_submission
    from harness.verification.findings import Verification
    from harness.verification.run import verify

_WHERE = {
    "Grader": "harness.batch.training",
    "Reward": "harness.batch.reward",
    "reward": "harness.batch.reward",
    "grade": "harness.grading.grader",
    "Problem": "harness.load.problem",
    "ProblemError": "harness.load.problem",
    "Profile": "harness.profiling.result",
    "profile": "harness.profiling.run",
    "Report": "harness.report",
    "Verdict": "harness.report",
    "Sanitizing": "harness.sanitizing.findings",
    "sanitize": "harness.sanitizing.run",
    "ScaffoldError": "harness.scaffold.write",
    "new_problem": "harness.scaffold.write",
    "new_submission": "harness.scaffold.write",
    "Submission": "harness.load.submission",
    "SubmissionError": "harness.load.submission",
    "Survey": "harness.machine.survey",
    "survey": "harness.machine.survey",
    "Verification": "harness.verification.findings",
    "verify": "harness.verification.run",
}

__all__ = [
    "Grader",
    "Problem",
    "ProblemError",
    "Profile",
    "Report",
    "Reward",
    "Sanitizing",
    "ScaffoldError",
    "Submission",
    "SubmissionError",
    "Survey",
    "Verdict",
    "Verification",
    "grade",
    "new_problem",
    "new_submission",
    "profile",
    "reward",
    "sanitize",
    "survey",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_WHERE[name]), name)
