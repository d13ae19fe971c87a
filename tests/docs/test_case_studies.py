"""docs/case-studies/: the tables are those that the script makes, and what the pages point to exists."""

from __future__ import annotations

import re

import pytest

from scripts.case_studies import BEGIN, END, PAGES, PROBLEMS, ROOT, entries, load_rows, table, with_table

ROW = {
    "file": "a.py",
    "problem": "p",
    "verdict": "accepted",
    "reason": "grade.accepted",
    "device": "NVIDIA H200",
    "plot": True,
    "median_us": 100.04,
    "ci95_us": [99.0, 101.0],
    "reference_us": 1000.0,
    "speedup": 9.996,
    "fraction_of_floor": 0.9367,
    "bound": "Memory is busy.",
    "findings": ["Something to try."],
    "kernels": [["void scan<4>(float const*, int)", 99.96, 0.996], ["tail(int)", 0.1, 0.004]],
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_page_holds_the_table_that_the_script_makes(problem: str) -> None:
    page = (PAGES / f"{problem}.md").read_text(encoding="utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    assert page == with_table(page, problem, load_rows()), "run: python -m scripts.case_studies --write"
    for target in re.findall(r"\]\(([^)]+)\)", page):
        assert (PAGES / target).is_file(), target


def test_a_table_shows_times_profile_and_plot() -> None:
    failed = {**ROW, "file": "b.py", "verdict": "rejected", "reason": "precision.below_spec", "plot": False}
    for key in ("median_us", "bound", "findings", "kernels"):
        del failed[key]
    made = table("p", [ROW, failed, {**ROW, "problem": "other", "file": "c.py"}])
    assert "| `a.py` | accepted, `grade.accepted` | 100.0 us (95 % in 99.0 to 101.0) | 93.7 % | 10.00 |" in made
    assert "| `b.py` | rejected, `precision.below_spec` |  |  |  |" in made
    assert "- `a.py`: `scan` 100.0 us (100 %)\n" in made
    assert "- `a.py`: Something to try." in made
    assert made.count("![") == 1
    assert "c.py" not in made


def test_what_was_printed_of_a_file_is_a_link_from_its_row() -> None:
    assert "| [`s6_v3.py`](../../benchmarks/results/case_studies/s6_v3.txt) |" in table(
        "p", [{**ROW, "file": "s6_v3.py"}]
    )


def test_every_sample_for_a_gpu_has_a_page() -> None:
    assert {entry.problem for entry in entries()} == set(PROBLEMS)
    assert all((ROOT / "submissions" / entry.file).is_file() for entry in entries())
