"""A problem's statement: Markdown as HTML that holds no HTML of its own and leads nowhere else."""

from __future__ import annotations

from markdown_it import MarkdownIt

_READER = (
    MarkdownIt("commonmark", {"html": False}).enable("table").disable(["link", "image", "autolink", "html_inline"])
)


def as_html(statement: str) -> str:
    """Safe to put in a page as it is. The page has a heading of the first level already."""
    tokens = _READER.parse(statement)
    if tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
        del tokens[:3]
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 1)}"
    return str(_READER.renderer.render(tokens, _READER.options, {}))
