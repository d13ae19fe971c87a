"""The examples in docs/ are run as a reader would: files go where the page says, then its code runs beside them.

A fence's info string says what its block is:

- ``python file=PATH`` or ``toml file=PATH``: the block is that file, in a folder that belongs to the page
- ``python run``: it is run in that folder, in a fresh interpreter, after the files and blocks above it
- ``python run slow``: the same, and it compiles something
- anything else is not tested
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.load.submission import Submission

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    info: tuple[str, ...]
    text: str

    @property
    def file(self) -> str | None:
        """The path that the block is to be written to, if it is a file."""
        return next((word.removeprefix("file=") for word in self.info if word.startswith("file=")), None)


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page.name, text.count("\n", 0, match.start()) + 1, tuple(match["info"].split()), match["text"])
        for match in FENCE.finditer(text)
    ]


BLOCKS = [block for page in sorted((ROOT / "docs").glob("*.md")) for block in blocks_of(page)]
RUNNABLE = [
    pytest.param(block, id=f"{block.page}:{block.line}", marks=[pytest.mark.slow] if "slow" in block.info else [])
    for block in BLOCKS
    if "run" in block.info
]


@pytest.mark.parametrize("block", RUNNABLE)
def test_an_example_runs(block: Block, tmp_path: Path) -> None:
    for earlier in BLOCKS:
        if earlier.page == block.page and earlier.line < block.line and earlier.file:
            path = tmp_path / earlier.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(earlier.text, encoding="utf-8")
    scripts = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # ninja is there
    environment = {
        **os.environ,
        "PATH": scripts,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
        "TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions"),
    }
    ran = subprocess.run(
        [sys.executable, "-c", block.text], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500
    )
    assert ran.returncode == 0, ran.stderr


def test_the_pages_on_writing_have_examples_that_run() -> None:
    pages = {block.page for block in BLOCKS if "run" in block.info}
    assert {"writing-a-problem.md", "writing-a-submission.md"} <= pages


def test_every_file_that_defines_modelnew_in_the_docs_is_a_submission() -> None:
    files = [block for block in BLOCKS if block.file and "class ModelNew" in block.text]
    assert files
    for block in files:
        assert block.file is not None
        Submission.from_source(block.text, block.file)


def test_all_fences_are_closed() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        fences = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("```")]
        assert len(fences) % 2 == 0, page.name
