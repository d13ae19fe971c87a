"""Records become findings: a kind each, every mistake once, and a library's kernels set aside."""

from __future__ import annotations

import pytest
import reports
from hypothesis import given
from hypothesis import strategies as st

from harness.build.outcome import BuildOutcome
from harness.build.plan import Part, Plan
from harness.sanitizing.findings import KINDS, ToolRun
from harness.sanitizing.gather import gather
from harness.sanitizing.parse import Spot, parse
from harness.sanitizing.places import Extension, Places

KERNEL = """
__global__ void twice(const float* x, float* out, int n) {
    float held[4];
    int i = threadIdx.x;
    held[0] = x[i];
    out[i] = held[0];
    out[i + 1] = held[0];
    out[i + 2] = held[0];
}
__global__ void load(const double* x, int n) {}
"""
SUBMISSION = f'from torch.utils.cpp_extension import load_inline\nSOURCE = """{KERNEL}"""\nclass ModelNew: ...\n'
FIRST = 2
"""Line of the submission on which the string begins."""


def extension(text: str = KERNEL, kernels: frozenset[str] = frozenset({"twice", "load"})) -> Extension:
    implicit = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n"
    lines = text.count("\n") + 1
    parts = (Part(1, 3, "functions", False), Part(4, lines, "cuda_sources"))
    plan = Plan("ext", {"cuda.cu": implicit + text}, {"cuda.cu": parts}, (), (), True, ("sm_90",))
    return Extension(plan, kernels, ())


def places(*extensions: Extension, source: str = SUBMISSION) -> Places:
    return Places("mine.py", source, extensions or (extension(),))


def run(tool: str, text: str, where: Places | None = None) -> ToolRun:
    return gather(tool, text, where or places(), seconds=1.0, failure=None)


@pytest.mark.parametrize(
    ("tool", "text", "kind", "access", "memory", "size"),
    [
        ("memcheck", reports.OUT_OF_BOUNDS_WRITE, "out_of_bounds_write", "write", "global", 4),
        ("memcheck", reports.OUT_OF_BOUNDS_READ, "out_of_bounds_read", "read", "global", 8),
        ("memcheck", reports.MISALIGNED, "misaligned_access", "atomic", "shared", 16),
        ("memcheck", reports.OLD_FORM, "misaligned_access", "write", "global", 4),
        ("memcheck", reports.NO_LINE_INFO, "out_of_bounds_write", "write", "local", 4),
        ("memcheck", reports.HEAP, "device_heap_error", "", "", None),
        ("memcheck", reports.NEVER_SEEN, "other", "", "", None),
        ("racecheck", reports.RACE, "shared_memory_race", "write", "shared", None),
        ("racecheck", reports.HAZARD, "shared_memory_race", "write", "shared", None),
        ("initcheck", reports.UNINITIALIZED, "uninitialized_read", "read", "global", 4),
        ("synccheck", reports.BARRIER, "barrier_error", "", "", None),
    ],
)
def test_each_kind(tool, text, kind, access, memory, size):
    (finding,) = run(tool, text).findings
    assert finding.kind == kind
    assert (finding.access, finding.memory, finding.size_bytes) == (access, memory, size)
    assert finding.tool == tool


def test_every_kind_has_words():
    found = {run("memcheck", text).findings[0].kind for text in reports.EVERY.values() if parse(text).records}
    assert found == set(KINDS)


def test_a_place_is_a_line_of_the_submission():
    (finding,) = run("memcheck", reports.OUT_OF_BOUNDS_WRITE).findings
    assert finding.place is not None
    assert (finding.place.file, finding.place.line) == ("cuda_sources", 7)
    assert finding.place.text == "out[i + 1] = held[0];"
    assert SUBMISSION.split("\n")[finding.place.submission_line - 1].strip() == finding.place.text
    assert finding.place.submission_line == FIRST + 6
    assert finding.thread == (136, 0, 0)
    assert finding.block == (19, 0, 0)
    assert "is out of bounds" in finding.message


def test_one_mistake_is_one_finding_with_how_often():
    result = run("memcheck", reports.OUT_OF_BOUNDS_READ)
    (finding,) = result.findings
    assert finding.count == 2
    assert finding.thread == (0, 1, 0)
    assert finding.kernel == "void ns::outer<(int)4, float>(const double *)"
    assert [place.line for place in finding.called_from] == [5, 9]
    assert (result.reported, result.cut) == (7, True)


def test_a_race_names_both_lines():
    (finding,) = run("racecheck", reports.RACE).findings
    assert finding.place is not None
    assert [finding.place.line, *(place.line for place in finding.others)] == [6, 7, 8]
    assert [finding.place.access, *(place.access for place in finding.others)] == ["write", "read", "read"]
    assert finding.severity == "error"


def test_a_part_that_the_compiler_took_out_belongs_to_its_kernel():
    (finding,) = run("synccheck", reports.BARRIER).findings
    assert finding.kernel == "twice(const float *, float *, int)"


def test_a_library_s_kernel_is_set_aside_but_not_its_wrong_addresses():
    result = run("initcheck", reports.UNINITIALIZED)
    assert [finding.kernel for finding in result.findings] == ["twice(const float *, float *, int)"]
    assert [(each.kind, each.count) for each in result.aside] == [("uninitialized_read", 1)]
    torch = reports.OUT_OF_BOUNDS_WRITE.replace("twice(", "void at::native::fill_kernel(")
    assert [finding.kind for finding in run("memcheck", torch).findings] == ["out_of_bounds_write"]


def test_a_name_of_torch_s_is_not_made_one_s_own():
    text = reports.RACE.replace("twice(", "void at::twice(")
    assert run("racecheck", text, places(extension(kernels=frozenset({"at::twice"})))).findings == []


def test_a_jitted_kernel_s_lines_are_the_submission_s_own():
    source = "import triton\n@triton.jit\ndef scan(x):\n    pass\nclass ModelNew: ...\n"
    where = places(source=source)
    assert where.own("scan")
    place = where.place(Spot("scan", "/tmp/submission-x/mine.py", 3), "scan")
    assert (place.file, place.line, place.submission_line, place.text) == ("mine.py", 3, 3, "def scan(x):")


def test_of_two_extensions_the_one_with_the_kernel():
    other = extension("\n\n__global__ void other() {\n  int unused;\n}\n", frozenset({"other"}))
    where = places(other, extension())
    spot = Spot("twice(int)", "/s/src/cuda.cu", 6)
    assert where.place(spot, "twice(int)").text == "float held[4];"
    assert where.place(spot, "other()").text == "__global__ void other() {"


def test_a_text_that_is_put_together_has_no_line_of_the_submission_s():
    source = "PARTS = ['a', 'b']\nSOURCE = ''.join(PARTS)\nclass ModelNew: ...\n"
    place = places(source=source).place(Spot("twice", "/s/src/cuda.cu", 6), "twice")
    assert (place.file, place.line, place.submission_line) == ("cuda_sources", 3, None)


def test_a_string_after_a_backslash_begins_a_line_later():
    source = SUBMISSION.replace('"""\n__global__', '"""\\\n__global__')
    text = KERNEL[1:]
    place = places(extension(text), source=source).place(Spot("twice", "/s/src/cuda.cu", 4 + 5), "twice")
    assert place.text == "out[i + 1] = held[0];"
    assert source.split("\n")[place.submission_line - 1].strip() == place.text


@pytest.mark.parametrize("spot", [Spot("f"), Spot("f", "/usr/include/x.h", 9), Spot("f", "/s/src/cuda.cu", 2)])
def test_a_place_outside_of_the_solver_s_text_is_not_said_to_be_in_it(spot):
    place = places().place(spot, "f")
    assert place.submission_line is None
    assert place.file in (None, "x.h", "cuda.cu")


def test_what_did_not_come_to_its_end_is_not_clean():
    assert not run("memcheck", reports.CUT_OFF).ended
    assert run("memcheck", reports.CLEAN).ended
    failed = gather("memcheck", reports.CLEAN, places(), seconds=1.0, failure="call: it raised")
    assert not failed.ended


def test_a_library_that_is_gone_has_no_names():
    outcome = BuildOutcome(
        ok=True, library=None, module_name="m", key="", cached=False, seconds=0.0, recipe="none", diagnostics=[],
        log="", kernels=[],
    )  # fmt: skip
    assert Extension.of(extension().plan, outcome).functions == frozenset()


LINES = [line for text in reports.EVERY.values() for line in text.splitlines()]


@given(st.lists(st.sampled_from(LINES), max_size=60), st.sampled_from(["memcheck", "racecheck", "initcheck"]))
def test_whatever_is_printed_every_report_is_in_a_finding_or_set_aside(lines, tool):
    text = "\n".join(lines)
    parsed = parse(text)
    result = gather(tool, text, places(), seconds=1.0, failure=None)
    assert ToolRun.model_validate_json(result.model_dump_json()) == result
    counted = sum(each.count for each in (*result.findings, *result.aside))
    assert counted == sum(record.hazards for record in parsed.records)
    assert result.reported >= len(parsed.records)
    keys = [(found.kind, found.kernel, found.place, tuple(found.others)) for found in result.findings]
    assert len(set(keys)) == len(keys)


def test_a_race_is_one_finding_whichever_of_its_places_comes_first():
    turned = reports.RACE.replace("Write access at twice(const float *, float *, int)+0x90 in /s/src/cuda.cu:9", "X")
    turned = turned.replace("Read access at twice(const float *, float *, int)+0x100 in /s/src/cuda.cu:10", "Y")
    turned = turned.replace("X", "Read access at twice(const float *, float *, int)+0x100 in /s/src/cuda.cu:10")
    turned = turned.replace("Y", "Write access at twice(const float *, float *, int)+0x90 in /s/src/cuda.cu:9")
    assert turned != reports.RACE
    (finding,) = run("racecheck", reports.RACE + turned).findings
    assert finding.count == 8
