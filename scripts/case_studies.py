"""The tables of docs/case-studies/, from gradings and profiles of the samples that are kept in benchmarks/results/.

python -m scripts.case_studies --measure   # grades and profiles every sample for a GPU, on a GPU; minutes
python -m scripts.case_studies --measure s6_v3.py recurrence_best.py   # these alone; the others' figures stay
python -m scripts.case_studies --measure --jobs 3   # so many at once: what has no GPU at the moment builds and imports
python -m scripts.case_studies             # prints the tables
python -m scripts.case_studies --write     # puts each between its page's two marks

Measuring runs `harness run PROBLEM SUBMISSION --plot PICTURE` and `harness profile PROBLEM SUBMISSION` for each, keeps
what the first prints as STEM.txt, and the figures that the tables need of both as case_studies.json.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from harness.audit.kernels import short
from harness.load.expected import ExpectedSubmission, load_expected
from harness.report import Report

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "case-studies"
RESULTS = ROOT / "benchmarks" / "results" / "case_studies"
BEGIN, END = "<!-- made by scripts/case_studies.py -->\n", "<!-- end -->\n"

PROBLEMS = ("linear_recurrence", "selective_scan", "gemm_bn_scale_softmax")
"""A page each, docs/case-studies/PROBLEM.md."""
_SHOWN = 0.005
"""Share of a call's time from which on a kernel is shown."""

Row = dict[str, Any]
"""What is kept of one submission's report and profile; plain JSON."""


def entries() -> list[ExpectedSubmission]:
    """The samples for a GPU, in the order of expected.toml."""
    return [entry for entry in load_expected(ROOT / "submissions" / "expected.toml") if entry.device == "cuda"]


def command(entry: ExpectedSubmission, mode: str, *options: str) -> list[str]:
    """As a reader would type it, in the repository's root."""
    return ["harness", mode, f"problems/{entry.problem}", f"submissions/{entry.file}", *options]


def run(argv: list[str]) -> tuple[Report, str]:
    """The report and what was printed. Raises RuntimeError where no report came."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        done = subprocess.run(
            [sys.executable, "-m", *argv, "--json", str(path)], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if not path.is_file():
            raise RuntimeError(f"{' '.join(argv)} wrote no report, exit code {done.returncode}: {done.stderr[-500:]}")
        return Report.model_validate_json(path.read_text(encoding="utf-8")), done.stdout


def measured(entry: ExpectedSubmission) -> tuple[Report, Report | None, str] | None:
    """A sample's report, its profile where it was accepted, and what was printed; None where no report came, which is
    told on stderr."""
    print(entry.file, file=sys.stderr, flush=True)
    picture = (PAGES / f"{Path(entry.file).stem}.svg").relative_to(ROOT)
    plot = ("--plot", str(picture)) if entry.verdict == "accepted" else ()
    try:
        report, text = run(command(entry, "run", "--device", "cuda", *plot))
        profiled = run(command(entry, "profile", "--device", "cuda"))[0] if report.accepted else None
    except RuntimeError as error:
        print(error, file=sys.stderr, flush=True)
        return None
    return report, profiled, text


def measure(files: list[str], jobs: int) -> bool:
    """Grade and profile these samples, or all where none is named; write everything that the pages show. Whether all of
    them came to a report: what is said of one that did not is on stderr, and its earlier figures stay."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    rows = {row["file"]: row for row in load_rows()}
    unknown = set(files) - {entry.file for entry in entries()}
    if unknown:
        raise SystemExit(f"{sorted(unknown)[0]} is not among the samples for a GPU in submissions/expected.toml.")
    whole = True
    asked = [entry for entry in entries() if not files or entry.file in files]
    with ThreadPoolExecutor(jobs) as pool:
        for entry, found in zip(asked, pool.map(measured, asked), strict=True):
            if found is None:
                whole = False
                continue
            report, profiled, text = found
            (RESULTS / f"{Path(entry.file).stem}.txt").write_text(text, encoding="utf-8")
            rows[entry.file] = row_of(entry, report, profiled)
            kept = [rows[each.file] for each in entries() if each.file in rows]
            (RESULTS / "case_studies.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return whole


def row_of(entry: ExpectedSubmission, report: Report, profiled: Report | None) -> Row:
    """What the tables need of a report and a profile."""
    row: Row = {
        "file": entry.file,
        "problem": entry.problem,
        "verdict": report.verdict.value,
        "reason": report.reason.code,
        "device": None if report.device is None else report.device.name,
        "plot": report.accepted,
    }
    if report.timing is not None:
        row["median_us"] = report.timing.candidate.median_us
        row["ci95_us"] = list(report.timing.candidate.ci95_us)
        row["reference_us"] = report.timing.reference.median_us
        row["speedup"] = report.timing.speedup
        row["fraction_of_floor"] = report.timing.fraction_of_floor
    profile = None if profiled is None else profiled.profile
    if profile is not None:
        row["bound"] = profile.bound_why or profile.bound
        row["findings"] = [finding.message for finding in profile.findings[:2]]
        row["kernels"] = [[kernel.name, kernel.us, kernel.share] for kernel in profile.kernels[:6]]
    return row


def load_rows() -> list[Row]:
    """What was kept; nothing where nothing was measured yet."""
    path = RESULTS / "case_studies.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def table(problem: str, rows: list[Row]) -> str:
    """The problem's submissions: times first, then what each profile said and each plot."""
    own = [row for row in rows if row["problem"] == problem]
    if not own:
        return "Not measured yet: `python -m scripts.case_studies --measure` on a machine with a GPU, then `--write`.\n"
    lines = [
        f"On {own[0]['device']}, by `harness run problems/{problem} submissions/FILE`:\n",
        "| file | verdict | time of a call | of the floor | times the reference |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in own:
        cells = [_linked(row["file"]), f"{row['verdict']}, `{row['reason']}`"]
        if "median_us" in row:
            low, high = row["ci95_us"]
            fraction = row["fraction_of_floor"]
            interval = f"95 % in {low:.1f} to {high:.1f}" if math.isfinite(high) else "too few calls for an interval"
            cells.append(f"{row['median_us']:.1f} us ({interval})")
            cells += ["" if fraction is None else f"{100 * fraction:.1f} %", f"{row['speedup']:.2f}"]
        else:
            cells += ["", "", ""]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("\nWhat `harness profile` said:\n")
    for row in own:
        kernels = ", ".join(
            f"`{short(name)}` {us:.1f} us ({100 * share:.0f} %)"
            for name, us, share in row.get("kernels", [])
            if share >= _SHOWN
        )
        for message in [kernels, row.get("bound"), *row.get("findings", [])]:
            if message:
                lines.append(f"- `{row['file']}`: {message}")
    lines += [f"\n![{row['file']}]({Path(row['file']).stem}.svg)" for row in own if row["plot"]]
    return "\n".join(lines) + "\n"


def _linked(file: str) -> str:
    """The file's name, with a link to what was printed of it, if that was kept."""
    kept = RESULTS / f"{Path(file).stem}.txt"
    return f"[`{file}`](../../{kept.relative_to(ROOT)})" if kept.is_file() else f"`{file}`"


def with_table(page: str, problem: str, rows: list[Row]) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(problem, rows)}\n{END}{after}"


def main() -> int:
    """Measure, print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="samples to measure; none: all")
    parser.add_argument("--measure", action="store_true", help="grade and profile")
    parser.add_argument("--jobs", type=int, default=1, help="samples at once, with --measure")
    parser.add_argument("--write", action="store_true", help="put the tables into the pages")
    arguments = parser.parse_args()
    if arguments.measure:
        return 0 if measure(arguments.files, arguments.jobs) else 1
    rows = load_rows()
    for problem in PROBLEMS:
        path = PAGES / f"{problem}.md"
        if arguments.write:
            path.write_text(with_table(path.read_text(encoding="utf-8"), problem, rows), encoding="utf-8")
        else:
            print(f"{problem}\n\n{table(problem, rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
