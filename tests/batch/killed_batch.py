"""A batch of made-up gradings in a process that a test kills: python killed_batch.py FOLDER COUNT.

FOLDER/begun.log gets a line for each grading that begins, on the disk before it ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from batch_fakes import FakeExecutor, entry, index_of, report

from harness.batch.job import Job, Options
from harness.batch.run import run_batch
from harness.batch.store import Store
from harness.report import Report


def main(folder: Path, count: int) -> None:
    (named,) = index_of(folder / "p", "softmax").named
    # Each third is the same content as the one before it.
    entries = [entry(named, f"s{number}", f"# {number - (number % 3 == 2)}\n") for number in range(count)]
    log = os.open(folder / "begun.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def grade_with(job: Job) -> Report:
        os.write(log, f"{job.sha256}\n".encode())
        await asyncio.sleep(0.01)
        return report(sha256=job.sha256)

    with Store(folder / "run", {}) as store:
        asyncio.run(run_batch(entries, FakeExecutor(grade_with=grade_with), store, Options()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
