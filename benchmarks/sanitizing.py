"""What compute-sanitizer finds of mistakes that were planted, and of kernels that only look like them.

python -m benchmarks.sanitizing                 # every tool on every file, a line each; needs a GPU
python -m benchmarks.sanitizing --keep FOLDER   # and what compute-sanitizer printed, as files
python -m benchmarks.sanitizing --jobs 6        # so many files at once: builds and imports beside each other
python -m benchmarks.sanitizing --only shared_memory_race   # the planted file of that name and its twin

Each planted file (tests/sanitizing/planted) says which tool has to find what; the lines end with `// planted`. Exit
code 1 when a mistake is missed, named at another line, or found where there is none; 2 where it can't be run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from harness import sanitize
from harness.machine.device import DeviceError
from harness.sanitizing.findings import Sanitizing, ToolRun
from harness.sanitizing.tool import SanitizerFailed, SanitizerMissing

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "sanitizing"


def main() -> int:
    """Run all, and print a line for each tool and file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sanitizing")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where to put what compute-sanitizer printed")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="files at once; one of them has the device")
    parser.add_argument("--only", nargs="*", default=[], help="names of files, without .py")
    parser.add_argument("--sandbox", help="how they are confined; default: as `harness sanitize` does")
    arguments = parser.parse_args()
    keep: Path | None = arguments.keep
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    good, begun = True, False
    paths = sorted([*(FOLDER / "planted").glob("*.py"), *(FOLDER / "clean").glob("*.py")])
    paths = [path for path in paths if not arguments.only or path.stem in arguments.only]
    look = partial(_sanitized, arguments.sandbox)
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for path, found in zip(paths, pool.map(look, paths), strict=True):
            if isinstance(found, tuple):
                why, elsewhere_too = found
                print(f"{path.parent.name}/{path.stem}: {why}", file=sys.stderr, flush=True)
                if elsewhere_too:
                    pool.shutdown(cancel_futures=True)
                    return 2
                good = False
                continue
            if not begun:
                begun = True
                print(f"# compute-sanitizer {found.sanitizer} on {found.device.name}, driver {found.device.driver}")
            for run in found.runs:
                good &= _told(path, run)
                if keep is not None:
                    name = f"{path.parent.name}_{path.stem}_{run.tool}.txt"
                    (keep / name).write_text(run.printed, encoding="utf-8")
    return 0 if good else 1


def _sanitized(sandbox: str | None, path: Path) -> Sanitizing | tuple[str, bool]:
    """In a process of the pool; else why not, and whether that holds for every other file as well."""
    try:
        return sanitize(FOLDER / "problem", path, sandbox=sandbox)
    except (DeviceError, SanitizerMissing) as error:
        return str(error), True
    except SanitizerFailed as error:
        return str(error), False


def _told(path: Path, run: ToolRun) -> bool:
    """A line for one tool on one file; whether it is as planted."""
    right = _as_planted(path, run)
    kinds = ", ".join(f"{each.kind} x{each.count}" for each in run.findings) or "-"
    ended = "" if run.ended else f" not to the end ({run.failure})"
    mark = "" if right else " NOT AS PLANTED"
    print(f"{path.parent.name}/{path.stem:<20} {run.tool:<9} {run.seconds:6.1f} s  {kinds}{ended}{mark}", flush=True)
    return right


def _as_planted(path: Path, run: ToolRun) -> bool:
    """Whether the tool that has to find it did, at its lines, and others found nothing else."""
    text = path.read_text(encoding="utf-8")
    planted = re.search(r"^# planted: (\w+) (\w+)$", text, re.MULTILINE)
    if planted is None:
        return run.ended and not run.findings
    tool, kind = planted.groups()
    if run.tool != tool:
        return all(each.kind == kind for each in run.findings)
    lines = {number for number, line in enumerate(text.split("\n"), 1) if line.endswith("// planted")}
    if len(run.findings) != 1 or run.findings[0].kind != kind:
        return False
    (finding,) = run.findings
    places = [place for place in (finding.place, *finding.others, *finding.called_from) if place is not None]
    return lines <= {place.submission_line for place in places}


if __name__ == "__main__":
    sys.exit(main())
