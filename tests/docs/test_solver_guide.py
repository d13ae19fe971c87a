"""docs/solver-guide.md: its commands exist, its outputs are where they belong, its kernels do what the page says."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from harness.cli.main import main
from scripts.solver_guide import BEGIN, CAPTURE, COLUMNS, END, PAGE, ROOT, files_of, run, with_outputs

TEXT = PAGE.read_text(encoding="utf-8")
FILES = files_of(TEXT)
BLOCKS = list(CAPTURE.finditer(TEXT))
COMMANDS = [(match["device"], command) for match in BLOCKS for command in match["commands"].splitlines()]


def test_every_block_that_is_to_be_run_has_a_place_for_its_output():
    assert len(BLOCKS) == TEXT.count("```sh capture=") == TEXT.count(BEGIN) == TEXT.count(END)
    assert {match["device"] for match in BLOCKS} == {"cpu", "cuda"}


def test_every_tool_is_walked_through_on_both_devices():
    for device in ("cpu", "cuda"):
        walked = {shlex.split(command)[1] for kind, command in COMMANDS if kind == device}
        tools = {"device", "compile", "check", "run", "profile", "sanitize", "submit", "leaderboard"}
        assert walked == tools


def test_every_command_is_one_and_names_files_of_the_page(capfd):
    for name in {shlex.split(command)[1] for _, command in COMMANDS}:
        assert main([name, "--help"]) == 0
    for _, command in COMMANDS:
        for word in shlex.split(command):
            assert not word.endswith(".py") or word in FILES
            assert not word.startswith("problems/") or (ROOT / word).is_dir()


def test_outputs_are_of_the_commands_above_them_and_fit_the_page():
    for match in BLOCKS:
        commands = match["commands"].splitlines()
        shown = [line[2:] for line in match["output"].splitlines() if line.startswith("$ ")]
        # A block for another kind of device than the one that was there waits for it, and is empty.
        assert shown == commands or (not match["output"].strip() and match["device"] == "cuda")
        boxes = [line for line in match["output"].splitlines() if line.startswith(("│", "╭", "╰"))]
        assert all(len(line) <= COLUMNS for line in boxes)


def test_outputs_are_put_where_they_belong_and_only_those_of_the_device():
    asked: list[tuple[list[str], bool]] = []

    def output_of(commands: list[str], served: bool) -> str:
        asked.append((commands, served))
        return "```text\nhere\n```"

    made = with_outputs(TEXT, "cuda", output_of)
    assert len(asked) == sum(match["device"] == "cuda" for match in BLOCKS)
    assert [served for _, served in asked].count(True) == 1
    after = list(CAPTURE.finditer(made))
    for before, now in zip(BLOCKS, after, strict=True):
        assert now["commands"] == before["commands"]
        assert now["output"].strip() == ("```text\nhere\n```" if now["device"] == "cuda" else before["output"].strip())
    assert with_outputs(made, "cuda", output_of) == made


def test_a_command_s_output_has_its_exit_code_where_it_failed(tmp_path):
    import os

    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    shown = run("harness sanitize nothing nothing.py --tool lint", tmp_path, environment)
    assert shown.startswith("```text\n$ harness sanitize nothing nothing.py --tool lint\nharness: there is no tool")
    assert shown.endswith("\n(exit code 2)\n```")
    assert "exit code" not in run("harness --version", tmp_path, environment)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["naive_cpu.py", "fast_cpu.py"])
def test_the_kernels_for_a_cpu_are_right(tmp_path, name):
    assert graded(tmp_path, name, "cpu").verdict == "accepted"


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("name", ["naive.py", "fast.py"])
def test_the_kernels_for_a_gpu_are_right(tmp_path, name):
    assert graded(tmp_path, name, "cuda").verdict == "accepted"


@pytest.mark.gpu
@pytest.mark.slow
def test_the_race_that_the_page_plants_is_found_at_the_lines_that_it_says(tmp_path):
    from harness import sanitize

    (tmp_path / "careless.py").write_text(FILES["careless.py"])
    found = sanitize(ROOT / "problems" / "linear_recurrence", tmp_path / "careless.py", tools=["racecheck"])
    texts = {
        place.text for finding in found.findings for place in (finding.place, *finding.others) if place is not None
    }
    assert "held_b[step][threadIdx.x] = state;" in texts
    assert any("h[first" in (text or "") for text in texts)


def graded(folder: Path, name: str, device: str):
    from harness import grade

    (folder / name).write_text(FILES[name])
    return grade(ROOT / "problems" / "linear_recurrence", folder / name, mode="check", device=device)
