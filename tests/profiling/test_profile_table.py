"""What a person sees of a profile: it fits 80 columns, and shows what was found first."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from profile_samples import H200, counters, facts, kernel
from rich.console import Console

from harness.cli.table import print_report
from harness.profiling.occupancy import occupancy
from harness.profiling.result import CallTime, CopyProfile, CounterSource, DeviceTime, Gap, HostCall, Profile, Traffic
from harness.profiling.rules import findings
from harness.report import ProblemInfo, Reason, Report, Stage, SubmissionInfo, Verdict

PASSES = facts(
    kernel(
        name="double_segments(float const*, float const*, float*, float*, long long, int, int, int)",
        launches=12,
        us=2150.0,
        occupancy=occupancy(H200, (131072, 1, 1), (256, 1, 1), 32, 0),
        counters=counters(
            launches=12, share_of_peak=0.67, dram_bytes_per_s=2.95e12, memory_throughput=0.64, dram_throughput=0.6
        ),
    ),
    call=CallTime(us=2180.0, range_us=(2175.0, 2190.0), host_us=60.0, calls=9, floor_us=91.0, needed_bytes=403e6),
    device=DeviceTime(
        span_us=2170.0,
        busy_us=2150.0,
        gap_us=20.0,
        gaps=[Gap(us=2.0, after="a", before="double_segments(float const*)")],
        launches=12,
        streams=1,
    ),
    traffic=Traffic(needed_bytes=403e6, dram_bytes=6.45e9, factor=16.0, asked_bytes=9.6e9, asked_factor=24.0),
    host=[HostCall(name="cudaLaunchKernel", count=12, us=40.0)],
    copies=[CopyProfile(name="Memset (Device)", count=1, us=1.0, bytes=4096)],
    bound="memory",
    bound_why="double_segments, 100 % of the time, uses memory to 67 % and the SMs to 20 % of their peaks",
)


def shown(profile: Profile | None, verdict: Verdict = Verdict.ACCEPTED) -> str:
    report = Report(
        harness_version="0.1.0",
        created_at=datetime(2026, 11, 29, tzinfo=UTC),
        mode="profile",
        verdict=verdict,
        reason=Reason(code="grade.correct", message="Every output matches the reference."),
        problem=ProblemInfo(id="linear_recurrence", version="ab" * 32, workload="default"),
        submission=SubmissionInfo(path=None, name="recurrence_v2.py", sha256="cd" * 32),
        device=H200,
        profile=profile,
        stages=[Stage(name="profile", seconds=4.2)],
        seed="1",
    )
    out = io.StringIO()
    print_report(report, Console(file=out, width=80))
    return out.getvalue()


@pytest.fixture(scope="module")
def table() -> str:
    return shown(PASSES.profile.model_copy(update={"findings": findings(PASSES)}))


def test_the_first_finding_stands_above_the_kernels(table):
    flat = " ".join(table.replace("│", " ").split())
    assert "ACCEPTED recurrence_v2.py on linear_recurrence (default), NVIDIA H200, profiled" in flat
    assert "16 times the 403 MB that the problem needs" in flat
    assert flat.index("16 times the 403 MB") < flat.index("12 x double_segments")
    assert "bound by memory: double_segments" in flat
    assert "2.95 TB/s, 67 % of peak" in flat
    assert "131,072 blocks of 256, 32 registers" in flat
    assert "Nsight Compute 2025.3.1.0, launches: 1" in flat


def test_it_fits_a_terminal(table):
    assert max(map(len, table.splitlines())) <= 80


def test_counters_that_could_not_be_read_are_said_with_what_to_do():
    why = "The driver lets only administrators read hardware counters (ERR_NVGPUCTRPERM)."
    found = facts(
        kernel(counters=None, bound=None), traffic=None, counters=CounterSource(read=False, why_not=why)
    ).profile
    flat = " ".join(shown(found).replace("│", " ").split())
    assert why in flat
    assert "no rule found anything" in flat


def test_what_was_not_profiled_looks_like_any_report_that_is_not_accepted():
    flat = shown(None, Verdict.WRONG_ANSWER)
    assert "not profiled" in flat
    assert "to try" not in flat


def test_names_from_a_submission_can_not_paint(table):
    found = facts(kernel(name="\x1b[2J\x1b[31mACCEPTED(int)\x07"), bound_why="\x1b[2J").profile
    assert "\x1b" not in shown(found)
    assert "\x07" not in shown(found)
