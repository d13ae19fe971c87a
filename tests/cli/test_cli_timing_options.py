"""Options of `harness run` that are about time: what goes to the engine, and the picture."""

from __future__ import annotations

from pathlib import Path

import cli_fakes
import pytest

from harness.machine.locks import DeviceBusy
from harness.report import Steadiness, WorkloadResult


def test_options_about_time_reach_the_engine(engine, harness):
    fake = engine(cli_fakes.accepted())
    harness("run", "p", "s.py", "--interval", "0.5", "--budget", "10", "--lock-clocks", "--no-wait")
    (call,) = fake.calls
    assert call["relative_half_width"] == pytest.approx(0.005)
    assert call["budget_s"] == 10
    assert call["lock_clocks"] is True
    assert call["wait"] is False


def test_what_was_not_asked_for_is_left_to_the_engine(engine, harness):
    fake = engine(cli_fakes.accepted())
    harness("run", "p", "s.py")
    assert not fake.calls[0].keys() & {"relative_half_width", "budget_s", "lock_clocks", "wait", "plot"}


def test_check_can_refuse_to_wait_as_well(engine, harness):
    fake = engine(cli_fakes.accepted(mode="check", timing=None))
    harness("check", "p", "s.py", "--no-wait")
    assert fake.calls[0]["wait"] is False


@pytest.mark.parametrize("option", [("--interval", "0"), ("--budget", "-1"), ("--interval", "nan")])
def test_goals_that_cant_be_met_are_wrong_use(engine, harness, option):
    fake = engine(cli_fakes.accepted())
    code, out, _ = harness("run", "p", "s.py", *option)
    assert (code, out, fake.calls) == (2, "", [])


def test_a_device_in_use_is_wrong_use_with_one_sentence(engine, harness):
    engine(DeviceBusy("Another grading has GPU-1 (process 7); wait for it, or leave --no-wait out."))
    code, out, err = harness("run", "p", "s.py", "--no-wait")
    assert (code, out) == (2, "")
    assert "harness: Another grading has GPU-1 (process 7)" in err
    assert "Traceback" not in err


def test_a_picture_is_drawn_from_the_report(engine, harness, tmp_path: Path):
    pytest.importorskip("matplotlib")
    engine(cli_fakes.accepted())
    code, out, _ = harness("run", "p", "s.py", "--plot", str(tmp_path / "times.svg"))
    assert code == 0
    assert "ACCEPTED" in out
    assert "s6_v2.py on selective_scan" in (tmp_path / "times.svg").read_text()


def test_of_several_workloads_there_is_a_picture_as_well(engine, harness, tmp_path: Path):
    pytest.importorskip("matplotlib")
    good = cli_fakes.accepted()
    each = [WorkloadResult(name=name, timing=good.timing) for name in ("small", "large")]
    engine(good.model_copy(update={"timing": None, "workloads": each}))
    code, _, err = harness("run", "p", "s.py", "--plot", str(tmp_path / "times.svg"))
    assert (code, "was not written" in err) == (0, False)
    assert "2 of 2 workloads were timed" in (tmp_path / "times.svg").read_text()


def test_a_picture_that_cant_be_is_refused_before_anything_is_graded(engine, harness, tmp_path: Path):
    fake = engine(cli_fakes.accepted())
    code, out, err = harness("run", "p", "s.py", "--plot", str(tmp_path / "times.pdf"))
    assert (code, out, fake.calls) == (2, "", [])
    assert "ends in .png, .svg or .html" in err


def test_without_times_there_is_no_picture_and_the_verdict_stands(engine, harness, tmp_path: Path):
    pytest.importorskip("matplotlib")
    engine(cli_fakes.wrong_answer())
    code, _, err = harness("run", "p", "s.py", "--plot", str(tmp_path / "times.svg"))
    assert code == 1
    assert "nothing was timed" in err
    assert not (tmp_path / "times.svg").exists()


def timed(**more):
    """A good kernel's report, with more said of its timing."""
    good = cli_fakes.accepted()
    return good.model_copy(update={"timing": good.timing.model_copy(update=more)})


def test_the_table_says_what_the_speedup_means_and_what_is_missing(engine, harness):
    engine(timed(comparison="undecided", shortfall="Fewer than the 6 blocks of each side that were asked for."))
    _, out, _ = harness("run", "p", "s.py")
    assert "x: undecided" in out
    assert "missing" in out
    assert "Fewer than the 6 blocks" in out


def test_the_table_says_what_the_device_did(engine, harness):
    seen = Steadiness(
        blocks=12, measured_again=0, sm_clock_mhz=(1980, 1980), temperature_c=(41, 47), power_w=(301.2, 655.4)
    )
    engine(timed(steadiness=seen))
    _, out, _ = harness("run", "p", "s.py")
    assert "SM clock 1980 MHz, 41 to 47 C, 301 to 655 W" in out
    assert "measured again" not in out


def test_the_table_says_why_blocks_were_measured_again(engine, harness):
    engine(timed(steadiness=Steadiness(blocks=12, measured_again=2, why=["the device slowed itself down"])))
    _, out, _ = harness("run", "p", "s.py")
    assert "2 of 14 blocks measured again: the device slowed itself down" in " ".join(out.replace("│", "").split())
