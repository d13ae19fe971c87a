"""The agents of a grader's server as an executor: a job is a submission there, and its report comes back.

    grade(job) --submit, keyed by the job--> server --> agent --> watch --> Report

The server builds, queues and tries again by itself. A job that was handed in before, by a batch that was killed since,
is found by its key and not graded twice. Problems are the server's: one of another version there is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from typing import Any, Literal, Self

from pydantic import ValidationError

from harness.batch.executor import Executor, Gone, Lost, NotGraded
from harness.batch.job import Job
from harness.client import AsyncClient, ClientError, NotAllowed, ServerFailed, Unreachable
from harness.report import Report

_AHEAD = 2
"""Submissions there for each agent: one to grade, and one that it finds when it is done."""
_MOST = 20
"""Submissions of one job that ended as the grader's own failure, in batches before this one."""


class ServerExecutor(Executor):
    """Hands in to a server. Made by `connect`."""

    def __init__(self, client: AsyncClient, device: str, kind: Literal["cuda", "cpu"], agents: int) -> None:
        self._client = client
        self.device, self.kind = device, kind
        self.grade_slots, self.build_slots, self.builds_disturb = _AHEAD * agents, 1, False

    @classmethod
    async def connect(cls, server: str | None = None, key: str | None = None, devices: str = "auto") -> Self:
        """`devices` is cuda, cpu, or auto: GPUs where there are some. Address and key are by default the settings'.

        Raises Gone when it can't be reached, or when nobody there grades on such a device, or on several that differ.
        """
        try:
            client = AsyncClient(server, key)
            try:
                agents = [each for each in await client.devices() if each["state"] in ("idle", "busy")]
            except BaseException:
                await client.aclose()
                raise
        except ClientError as error:
            raise Gone(str(error)) from None
        wanted = devices if devices != "auto" else "cuda" if any(each["kind"] == "cuda" for each in agents) else "cpu"
        names = [each["name"] for each in agents if each["kind"] == wanted]
        if len(set(names)) != 1:
            await client.aclose()
            what = (
                f"devices that differ ({', '.join(sorted(set(names)))})" if names else f"nobody who grades on {wanted}"
            )
            raise Gone(f"the server has {what}; --devices says cuda or cpu.")
        return cls(client, names[0], "cuda" if wanted == "cuda" else "cpu", len(names))

    async def build(self, job: Job) -> tuple[str, ...]:
        """Nothing: agents build."""
        return ()

    async def grade(self, job: Job, artifacts: tuple[str, ...]) -> Report:
        """Hand in, and wait."""
        options = job.options
        if options.budget_s is not None or options.relative_half_width is not None or options.sandbox is not None:
            raise NotGraded("a server has its own budget, interval and sandbox")
        try:
            source = job.content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise NotGraded("it is not UTF-8, and a server takes text only") from None
        try:
            found = await self._handed_in(job, source)
            if found["problem_version"] != job.problem.version:
                await self._client.cancel(found["id"])
                raise NotGraded(f"the server's problem {job.problem.id} is of another version than ours")
            return self._report(await self._ended(found["id"]))
        except (Unreachable, ServerFailed) as error:
            raise Lost(str(error)) from None
        except NotAllowed as error:
            raise Gone(f"{error}") from None
        except ClientError as error:
            raise NotGraded(str(error)) from None

    async def close(self) -> None:
        """Close the connections. What is under way was cancelled by those who waited for it."""
        await self._client.aclose()

    async def _handed_in(self, job: Job, source: str) -> dict[str, Any]:
        for number in range(_MOST):
            key = hashlib.sha256(f"{job.key(self.device)} {number}".encode()).hexdigest()[:32]
            found = await self._client.submit(
                job.problem.id,
                source,
                device=self.kind,
                workload=job.options.workload,
                mode=job.options.mode,
                label=job.name[:100],
                idempotency_key=key,
            )
            # Ours from before. What the grader's own failure or a cancelled batch left is no answer.
            if found["state"] != "cancelled" and found.get("verdict") != "judge_error":
                return found
        raise NotGraded(f"the server failed with it {_MOST} times")

    async def _ended(self, submission: str) -> dict[str, Any]:
        try:
            return await self._client.wait(submission)
        except asyncio.CancelledError:
            with contextlib.suppress(ClientError):
                await self._client.cancel(submission)
            raise

    def _report(self, found: dict[str, Any]) -> Report:
        if found.get("report") is None:
            raise Lost("it was cancelled on the server")
        try:
            report = Report.model_validate(found["report"])
        except ValidationError:
            raise NotGraded("the server's report is of another version of the grader") from None
        if report.device is not None and report.device.name != self.device:
            raise NotGraded(f"it was graded on {report.device.name}, and this batch is for {self.device}")
        return report
