"""One planted mistake a kernel, and a kernel that looks like it and is right: each tool names the mistake and its line.

The lines that a finding has to name end with `// planted`; what it has to be, and by which tool, is in each file's
comment. Needs compute-sanitizer and a GPU, and compiles twelve extensions; without a GPU the kernels are compiled
alone.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness import sanitize
from harness.build.cache import BuildCache
from harness.build.outcome import BuildLimits, BuildOutcome
from harness.build.request import ExtensionRequest
from harness.build.service import BuildService
from harness.build.toolchain import discover
from harness.grading.builds import Builds
from harness.sandbox import PlainSandbox
from harness.sanitizing.findings import KINDS
from harness.sanitizing.tool import TOOLS

HERE = Path(__file__).parent
PLANTED = sorted((HERE / "planted").glob("*.py"))
CLEAN = sorted((HERE / "clean").glob("*.py"))


def marked(path: Path) -> set[int]:
    lines = path.read_text().split("\n")
    return {number for number, line in enumerate(lines, 1) if line.endswith("// planted")}


def expected(path: Path) -> tuple[str, str]:
    tool, kind = re.search(r"^# planted: (\w+) (\w+)$", path.read_text(), re.MULTILINE).groups()
    return tool, kind


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("path", PLANTED, ids=lambda path: path.stem)
def test_a_planted_mistake_is_named_with_its_line(path):
    tool, kind = expected(path)
    found = sanitize(HERE / "problem", path, tools=[tool])
    (finding,) = found.findings
    assert finding.kind == kind
    assert "twice" in finding.kernel
    named = {place.submission_line for place in (finding.place, *finding.others, *finding.called_from) if place}
    assert marked(path) <= named, finding
    if kind != "shared_memory_race":
        assert finding.thread is not None
        assert finding.block is not None
    assert not found.clean


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("path", CLEAN, ids=lambda path: path.stem)
def test_what_looks_like_it_and_is_right_has_no_finding(path):
    found = sanitize(HERE / "problem", path)
    assert [run.tool for run in found.runs] == list(TOOLS)
    assert found.findings == []
    assert found.clean, found.runs


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("path", PLANTED, ids=lambda path: path.stem)
def test_other_tools_find_no_other_mistake(path):
    tool, kind = expected(path)
    others = [name for name in TOOLS if name != tool]
    found = sanitize(HERE / "problem", path, tools=others)
    assert {finding.kind for finding in found.findings} <= {kind}


def test_every_planted_mistake_has_a_twin_that_is_right():
    assert [path.stem for path in PLANTED] == [path.stem for path in CLEAN]
    for path, twin in zip(PLANTED, CLEAN, strict=True):
        tool, kind = expected(path)
        assert kind == path.stem
        assert kind in KINDS
        assert tool in TOOLS
        assert len(marked(path)) == (2 if kind == "shared_memory_race" else 1)
        assert not marked(twin)


@pytest.mark.nvcc
@pytest.mark.parametrize("path", PLANTED + CLEAN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_marked_lines_are_lines_of_machine_code(path, tmp_path):
    source = path.read_text()
    text = re.search(r'SOURCE = """(.*?)torch::Tensor run', source, re.DOTALL)[1]
    kernel = text.replace("#include <torch/extension.h>", "")
    (tmp_path / "kernel.cu").write_text(kernel)
    command = [str(discover().nvcc), "-arch=sm_90", "-lineinfo", "-ptx", "kernel.cu", "-o", "kernel.ptx"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=200)
    lines = {int(line) for line in re.findall(r"\.loc\s+\d+ (\d+)", (tmp_path / "kernel.ptx").read_text())}
    first = source[: source.index('SOURCE = """')].count("\n") + 1
    assert marked(path) <= {first + line - 1 for line in lines}


class _Asked(BuildService):
    """Notes what it is asked to build."""

    def build(self, request, **_):
        self.request = request
        return BuildOutcome(
            ok=True, library=None, module_name=request.name, key="", cached=False, seconds=0.0, recipe="none",
            diagnostics=[], log="", kernels=[],
        )  # fmt: skip


@pytest.mark.parametrize("line_info", [False, True])
@pytest.mark.parametrize("cuda", [False, True])
def test_only_a_build_for_the_sanitizer_has_line_info_and_only_of_cuda(tmp_path, line_info, cuda):
    from contextlib import nullcontext

    service = _Asked(PlainSandbox(), cache=BuildCache(tmp_path), limits=BuildLimits())
    builds = Builds(
        service, [], device="cuda", arch="9.0", cuda_on_cpu=False, limit_s=9.0, aside=nullcontext, say=print,
        line_info=line_info,
    )  # fmt: skip
    claim = ExtensionRequest(
        kind="load_inline", name="x", cpp_sources="int f();", cuda_sources="__global__ void k() {}" if cuda else (),
        extra_cuda_cflags="-O3",
    ).model_dump(mode="json")  # fmt: skip
    builds.answer(claim)
    assert service.request.extra_cuda_cflags == (("-O3", "-lineinfo") if line_info and cuda else ("-O3",))
