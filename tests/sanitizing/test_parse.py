"""What compute-sanitizer prints becomes records, whatever it prints."""

from __future__ import annotations

import reports
from hypothesis import given
from hypothesis import strategies as st

from harness.sanitizing.parse import Record, Spot, parse

TWICE = "twice(const float *, float *, int)"


def only(text: str) -> Record:
    (record,) = parse(text).records
    return record


def test_an_access_with_its_place_thread_and_address():
    record = only(reports.OUT_OF_BOUNDS_WRITE)
    assert record.head == "Invalid __global__ write of size 4 bytes"
    assert record.spots == (Spot(TWICE, "/cache/staging/0a/src/cuda.cu", 10),)
    assert (record.thread, record.block) == ((136, 0, 0), (19, 0, 0))
    assert record.details[0] == "Address 0x7f1234604e20 is out of bounds"
    assert parse(reports.OUT_OF_BOUNDS_WRITE).total == 1
    assert not parse(reports.OUT_OF_BOUNDS_WRITE).notes


def test_frames_from_the_inside_out_without_the_host_s():
    first, second = parse(reports.OUT_OF_BOUNDS_READ).records
    assert [frame.function for frame in first.frames] == [
        "inner(const double *)",
        "void ns::outer<(int)4, float>(const double *)",
    ]
    assert [frame.line for frame in first.frames] == [8, 12]
    assert (second.thread, second.block) == ((1, 1, 0), (2, 3, 4))


def test_what_was_not_printed_counts():
    assert parse(reports.OUT_OF_BOUNDS_READ).total == 7


def test_a_race_has_all_its_places_and_its_hazards():
    record = only(reports.RACE)
    assert [(spot.access, spot.line) for spot in record.spots] == [("write", 9), ("read", 10), ("read", 11)]
    assert {spot.function for spot in record.spots} == {TWICE}
    assert record.severity == "error"
    assert record.hazards == 4
    assert record.thread is None


def test_a_hazard_has_its_block_and_first_thread():
    record = only(reports.HAZARD)
    assert (record.thread, record.block) == ((35, 0, 0), (1, 0, 0))
    assert [(spot.access, spot.line) for spot in record.spots] == [("write", 9), ("read", 10)]
    assert record.severity == "warning"


def test_the_forms_of_a_place():
    assert only(reports.MISALIGNED).spots[0] == Spot(TWICE, "/cache/staging/0a/src/cuda.cu", 9)
    assert only(reports.OLD_FORM).spots[0] == Spot(TWICE, "/s/src/cuda.cu", 6)
    assert only(reports.NO_LINE_INFO).spots[0] == Spot("unaligned_kernel()")
    assert only(reports.HEAP).spots[0] == Spot("")


def test_a_report_that_nobody_has_seen_before_is_kept():
    record = only(reports.NEVER_SEEN)
    assert record.head == "Something of a release to come"
    assert record.thread == (1, 2, 3)


def test_an_end_without_a_report():
    assert parse(reports.CLEAN).total == 0
    assert parse(reports.CLEAN_OF_RACES).total == 0
    assert parse(reports.CLEAN).records == ()


def test_what_the_tool_says_of_itself_is_a_note_and_no_end():
    parsed = parse(reports.NOT_STARTED)
    assert parsed.total is None
    assert "terminated before first instrumented API call" in parsed.notes[0]


def test_a_text_that_was_cut_off_keeps_what_there_is():
    parsed = parse(reports.CUT_OFF)
    assert parsed.total is None
    assert parsed.records[0].spots[0].line == 10


lines = st.sampled_from([line for text in reports.EVERY.values() for line in text.splitlines()])
words = st.text(st.sampled_from("= at:+0x(),[]in_ zWRe\t\x00é\n19"), max_size=40)


@given(st.lists(st.one_of(lines, words, st.builds(lambda a, b: a[: len(a) // 2] + b, lines, words)), max_size=40))
def test_any_text_has_an_answer_that_holds_no_more_than_it(parts):
    text = "\n".join(parts)
    parsed = parse(text)
    for record in parsed.records:
        assert record.head in text or record.head == "Race reported"
        assert record.spots or record.thread is not None
        for spot in (*record.spots, *record.frames):
            assert spot.line is None or str(spot.line) in text or spot.line == 0
            assert spot.access in ("", "read", "write", "atomic")
    assert parsed.total is None or parsed.total >= len(parsed.records)


@given(st.text(max_size=300))
def test_any_text_at_all(text):
    parse("========= " + text)


def test_long_lines_and_many_reports_end_soon():
    parse("========= Invalid __global__ read of size " + "9" * 100_000 + "\n=========     at " + "f(" * 50_000)
    parse(("========= " + "=" * 60 + " Error: " * 100 + "\n") * 2000)
    many = "========= Invalid\n=========     at k()+0x1 in f.cu:1\n=========\n" * 30_000
    assert len(parse(many).records) == 20_000
