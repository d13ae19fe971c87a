"""A job done here and now, in this process: what every executor has done somewhere."""

from __future__ import annotations

import re
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness.batch.job import Job, Options
from harness.load.problem import ProblemError
from harness.load.submission import Submission, SubmissionError
from harness.machine.device import DeviceError
from harness.machine.locks import DeviceBusy
from harness.report import Report
from harness.sandbox import SandboxError
from harness.workers.prepared import Supply

WRONG_USE = (ProblemError, DeviceError, DeviceBusy, SandboxError, SubmissionError)
"""What a grading raises where it can't be done; doing it again would change nothing."""


def build_job(job: Job, arch: str | None) -> tuple[str, ...]:
    """Compile the submission, as for a device of that architecture; the content keys of what is in the cache now."""
    compiling = replace(job, options=Options(mode="compile", sandbox=job.options.sandbox))
    report = graded(compiling, arch=arch)
    return tuple(extension.key for extension in report.build.extensions if extension.key)


def grade_job(job: Job, device: str, prepared: Supply | None = None) -> Report:
    """Grade on the device of that name here, with workers that are ready if there are some."""
    return graded(job, device=device, prepared=prepared)


def graded(job: Job, **where: Any) -> Report:
    """Grade as its options say; `where` are `grade`'s device, arch and prepared."""
    from harness.grading.grader import grade

    where = {**asdict(job.options), **where}
    try:
        text = job.content.decode("utf-8-sig")
        return grade(job.problem, Submission.from_source(text, job.name, job.problem.calling), **where)
    except (SubmissionError, UnicodeDecodeError):
        pass
    # Only from a file does text that is no submission become a verdict, and not an error.
    with tempfile.TemporaryDirectory(prefix="harness-batch-") as folder:
        path = Path(folder, _file_name(job.name))
        path.write_bytes(job.content)
        return grade(job.problem, path, **where)


def _file_name(name: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", name.removesuffix(".py")).strip(".")[:100]
    return f"{stem or 'submission'}.py"
