"""The submissions of expected.toml: graded where their device is at hand, and held to what the table says."""

from __future__ import annotations

import broken

from harness import verify


def test_an_example_that_ends_otherwise_is_an_error_and_one_for_another_device_is_not_run(tmp_path):
    path = broken.write(tmp_path)
    broken.with_example(path, "wrong_answer", "output.values")
    table = tmp_path / "submissions" / "expected.toml"
    table.write_text(table.read_text() + broken.ENTRY.format(verdict="x", reason="y").replace('"cpu"', '"cuda"'))
    found = verify(path, device="cpu")
    (error,) = found.of("error")
    assert error.code == "example.otherwise"
    assert error.evidence["got"] == ["accepted", "grade.accepted"]
    on_cpu, on_cuda = found.examples
    assert on_cpu.as_expected is False
    assert on_cpu.median_us is not None
    assert on_cuda.as_expected is None
    assert "--device cpu" in on_cuda.message
    assert {finding.code for finding in found.of("warning")} == {"example.none_accepted"}


def test_no_example_is_a_warning_and_a_broken_table_an_error(tmp_path):
    path = broken.write(tmp_path)
    assert [finding.code for finding in verify(path, device="cpu").of("warning")] == ["example.none"]
    (tmp_path / "submissions").mkdir()
    (tmp_path / "submissions" / "expected.toml").write_text("[[submission")
    assert [finding.code for finding in verify(path, device="cpu").of("error")] == ["example.malformed"]
