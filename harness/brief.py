"""Long texts and long lists made short, with a word on what is left out."""

from __future__ import annotations


def cut(text: str, most: int) -> str:
    """The text's first `most` characters, and how many more there were; the whole text where it has no more."""
    return text if len(text) <= most else f"{text[:most]} ... ({len(text) - most} more characters)"
