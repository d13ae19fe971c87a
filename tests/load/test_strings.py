"""Lines of a handed over string as lines of the whole text."""

from __future__ import annotations

import pytest

from harness.load.strings import Strings

TEXT = '''a = """
int one;
int two;
"""
b = r"""\\
int three;"""
load_inline("x", cuda_sources=a, cpp_sources=["int four;", b, "\\n" + a])
'''


@pytest.mark.parametrize(
    ("text", "line", "at"),
    [
        ("\nint one;\nint two;\n", 2, 2),
        ("\nint one;\nint two;\n", 3, 3),
        ("\\\nint three;", 2, 6),
        ("int four;", 1, 7),
        ("\nint one;\nint two;\n", 1, None),  # an empty line could be any
        ("\nint one;\nint two;\n", 9, None),
        ("\nint one;\nint two;\n", 0, None),
        ("\n\nint one;\nint two;\n", 3, None),  # put together while it ran
    ],
)
def test_a_line_is_found_where_that_is_clear(text: str, line: int, at: int | None) -> None:
    assert Strings(TEXT).line(text, line) == at


def test_a_string_after_a_backslash_begins_a_line_later() -> None:
    assert Strings('a = """\\\nint one;\nint two;"""\n').line("int one;\nint two;", 2) == 3


def test_what_stands_there_twice_is_nowhere() -> None:
    twice = 'f(cuda_sources="""\nint x;""")\n\nf(cuda_sources="""\nint x;""")'
    assert Strings(twice).line("\nint x;", 2) is None


@pytest.mark.parametrize("source", ["def f(:\n", "(" * 5000, "", "x = 'int y;'\n" + "#" * (256 << 10)])
def test_what_is_no_text_or_too_long_has_no_places(source: str) -> None:
    assert Strings(source).line("int y;", 1) is None
