"""The outputs in docs/solver-guide.md, made by running its commands.

python -m scripts.solver_guide --device cpu           # runs the blocks `sh capture=cpu` and prints the page
python -m scripts.solver_guide --device cuda --write  # runs those for a GPU, and puts them into the page

A block `sh capture=cpu` is followed by two marks, between which the output of its commands goes. They run, in the
page's order, in a folder that holds the page's own files and the problems; of one marked `served` as well, a server of
the run's own is up. Whatever fails is in the page as it was printed, with its exit code: it may be what the page is
about.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "solver-guide.md"
BEGIN, END = "<!-- made by scripts/solver_guide.py -->\n", "<!-- end -->\n"
COLUMNS = 80
_FILE = re.compile(r"^```python file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CAPTURE = re.compile(
    r"^```sh capture=(?P<device>cpu|cuda)(?P<served> served)?\n(?P<commands>.*?)^```\n"
    + f"{re.escape(BEGIN)}(?P<output>.*?){re.escape(END)}",
    re.MULTILINE | re.DOTALL,
)
_COMMAND_S = 900


def with_outputs(page: str, device: str, output_of: Callable[[list[str], bool], str], *, only: str = "") -> str:
    """The page with what `output_of` (commands, whether a server is up) gives for the blocks of a device that hold a
    text."""

    def filled(match: re.Match[str]) -> str:
        if match["device"] != device or only not in match["commands"]:
            return match[0]
        whole = match[0]
        head = whole[: whole.index(BEGIN)]
        made = output_of(match["commands"].splitlines(), bool(match["served"]))
        return f"{head}{BEGIN}\n{made}\n{END}"

    return CAPTURE.sub(filled, page)


def files_of(page: str) -> dict[str, str]:
    """The files that the page holds, by name."""
    return dict(_FILE.findall(page))


def run(command: str, folder: Path, environment: Mapping[str, str]) -> str:
    """What a command prints, as a block of the page."""
    words = shlex.split(command, comments=True)
    assert words[0] == "harness", command
    done = subprocess.run(
        [sys.executable, "-m", "harness", *words[1:]],
        cwd=folder,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=_COMMAND_S,
        check=False,
    )
    # Progress goes to stderr, and so do sentences about wrong use, which then are all there is.
    said = done.stdout if done.stdout.strip() else done.stderr
    lines = [line.rstrip() for line in said.strip("\n").splitlines()]
    code = [f"(exit code {done.returncode})"] if done.returncode else []
    return "\n".join(["```text", f"$ {command}", *lines, *code, "```"])


@contextlib.contextmanager
def served(device: str, folder: Path, environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """A server with an agent for the device, and the environment in which commands find it."""
    name = "cuda:0" if device == "cuda" else device
    argv = [sys.executable, "-m", "harness", "serve", "--port", "0", "--json", "--devices", name]
    server = subprocess.Popen(
        [*argv, "--data", str(folder / "server")],
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        where = json.loads(server.stdout.readline())
        yield {**environment, "HARNESS_SERVER": where["url"], "HARNESS_KEY": where["key"]}
    finally:
        server.terminate()
        server.wait(60)


def main() -> int:
    """Run, and print or write."""
    parser = argparse.ArgumentParser(prog="python -m scripts.solver_guide")
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--write", action="store_true", help="put the outputs into the page")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="run blocks that hold this text, and leave the others"
    )
    given = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="guide-") as name:
        folder = Path(name)
        (folder / "problems").symlink_to(ROOT / "problems")
        for file, text in files_of(page).items():
            (folder / file).write_text(text, encoding="utf-8")
        environment = {**os.environ, "COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])

        def output_of(commands: list[str], with_server: bool) -> str:
            with contextlib.ExitStack() as stack:
                inside = stack.enter_context(served(given.device, folder, environment)) if with_server else environment
                blocks = []
                for command in commands:
                    print(f"$ {command}", file=sys.stderr)
                    blocks.append(run(command, folder, inside))
            return "\n\n".join(blocks)

        made = with_outputs(page, given.device, output_of, only=given.only)
    if given.write:
        PAGE.write_text(made, encoding="utf-8")
    else:
        print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
