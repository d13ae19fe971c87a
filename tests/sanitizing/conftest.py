"""A compute-sanitizer that is a script: it runs what it is given, and writes a report that was put beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = """#!{python}
import json, os, subprocess, sys
from pathlib import Path
folder = Path(__file__).parent
if sys.argv[1:] == ["--version"]:
    print("NVIDIA (R) Compute Sanitizer")
    print("Version 2026.0.0.0 (build 1) (public-release)")
    sys.exit(0)
end = sys.argv.index("--log-file") + 2
options, log, program = sys.argv[1:end], sys.argv[end - 1], sys.argv[end:]
def note(name, text):
    if os.access(folder, os.W_OK):  # not in a sandbox
        (folder / name).write_text(text)
caching = os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING")
note("ran.json", json.dumps({{"options": options, "cwd": os.getcwd(), "caching": caching}}))
if (folder / "report.txt").exists():
    code = subprocess.run(program, close_fds=False).returncode
    with open(log, "w") as file:
        file.write((folder / "report.txt").read_text())
    note("ended.txt", str(code))
else:
    with open(log, "w") as file:
        file.write("========= COMPUTE-SANITIZER\\n========= Error: the device is not supported\\n")
    sys.exit(1)
"""


@pytest.fixture(autouse=True)
def locks(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else's grading is waited for, but on a GPU."""
    if request.node.get_closest_marker("gpu") is None:
        monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path / "locks"))


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], Path]:
    """Make the script the compute-sanitizer of this machine, with this report. Returns its folder."""

    def make(report: str | None) -> Path:
        folder = tmp_path / "cuda" / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "compute-sanitizer"
        path.write_text(SCRIPT.format(python=sys.executable))
        path.chmod(0o755)
        if report is not None:
            (folder / "report.txt").write_text(report)
        monkeypatch.setenv("CUDA_HOME", str(folder.parent))
        return folder

    return make
