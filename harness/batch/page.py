"""A summary as one HTML file that needs nothing else: no script, no font, no other address."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.batch.inputs import BadInput
from harness.batch.summary import GroupSummary, Summary
from harness.batch.svg import curve, escape, legend, stacked, strips

_STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1b1f24; --quiet: #59636e; --edge: #d4dae0; --raised: #f5f7f9;
  --link: #0b5cad; --dot: #0072b2; --mean: #d55e00; --thin: .6 }
@media (prefers-color-scheme: dark) { :root { --page: #0f1318; --ink: #e6eaef; --quiet: #9aa6b2; --edge: #36404b;
  --raised: #171d24; --link: #79b8ff; --dot: #56b4e9; --mean: #ff9a4d; --thin: .85 } }
* { box-sizing: border-box }
body { margin: 1.5rem auto 4rem; max-width: 76rem; padding: 0 1rem; background: var(--page); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem }
nav { display: flex; flex-wrap: wrap; gap: 0 1.25rem; margin: .5rem 0 }
a { color: var(--link); display: inline-block; padding: .4rem 0 }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px }
.note { color: var(--quiet); font-size: .9rem; max-width: 48rem }
dl { display: grid; gap: .75rem; margin: 1rem 0; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)) }
dl div { border: 1px solid var(--edge); border-radius: .5rem; padding: .6rem .9rem }
dt, dd.more { color: var(--quiet); font-size: .85rem }
dd { margin: 0 }
dd.figure { font-size: 1.4rem; font-weight: 600; font-variant-numeric: tabular-nums }
.wide { overflow: auto; max-height: 85vh; border: 1px solid var(--edge); border-radius: .5rem }
.plot { max-width: 60rem }
.row { display: grid; grid-template-columns: minmax(8rem, 16rem) 1fr; gap: 0 .75rem; align-items: center }
.row span { text-align: right; font-size: .87rem; overflow-wrap: anywhere; line-height: 1.2 }
svg text { fill: var(--ink) }
svg { display: block; font-family: inherit; overflow: visible }
svg text.quiet { fill: var(--quiet); stroke: var(--page); stroke-width: 4px; paint-order: stroke }
svg line { stroke: var(--edge) }
svg line.one { stroke: var(--quiet) }
svg line.mean { stroke: var(--mean); stroke-width: 2 }
svg polyline { stroke: var(--dot); stroke-width: 2; fill: none }
svg circle { fill: var(--dot); fill-opacity: var(--thin) }
svg rect { stroke: var(--page) }
table { border-collapse: separate; border-spacing: 0; width: 100% }
th, td { padding: .35rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--edge) }
tbody tr:last-child > * { border-bottom: 0 }
thead th { position: sticky; top: 0; z-index: 1; background: var(--raised); font-size: .85rem; white-space: nowrap }
tbody th { position: sticky; left: 0; background: var(--page); font-weight: normal; min-width: 13rem; max-width: 22rem;
  overflow-wrap: anywhere }
thead th:first-child { left: 0; z-index: 2 }
tr.sum > * { font-weight: 600; background: var(--raised) }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
.n small { display: block; color: var(--quiet); font-weight: normal }
.long { min-width: 18rem; overflow-wrap: anywhere; font-size: .87rem }
@media (max-width: 40rem) {
  tbody th { min-width: 8rem; max-width: 38vw; font-size: .87rem }
  th, td { padding: .35rem .5rem }
  .row { grid-template-columns: 1fr; padding-bottom: .35rem }
  .row span { text-align: left }
}
"""

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
<main>
<h1>{title}</h1>
{body}
</main>
</html>
"""
_LISTED = 8
"""Problems of one way of failing that are named; of the others it is said how many there are."""


@dataclass(frozen=True)
class _Column:
    """Of a table: its head, which is HTML, and what its cells are."""

    head: str
    kind: Literal["name", "figure", "long"] = "figure"


def page(summary: Summary, title: str, not_used: Sequence[BadInput] = ()) -> str:
    """The page's text."""
    every = summary.groups[0]
    problems = [group for group in summary.groups if group.kind == "problem"]
    timed = [(group.name, group.speedups, group.speedup) for group in problems if group.speedups]
    parts = [
        ("Problems", _GROUPS_NOTE + _groups(summary.groups)),
        (
            "Verdicts",
            f"<p>{legend(list(every.verdicts))}</p>"
            + _plot(stacked([(group.name, group.verdicts) for group in problems])),
        ),
        (
            "Right and faster than p times the reference",
            _plot(curve(every.speedups, every.submissions)),
        ),
    ]
    if timed:
        note = '<p class="note">A dot for each right submission, a line at the geometric mean.</p>'
        parts.append(("Speedups", note + _plot(strips(timed))))
    if summary.failures:
        parts.append(("What failed", _failures(summary)))
    if summary.stages:
        parts.append(("Stages", _stages(summary)))
    if not_used:
        rows = [[escape(each.place), escape(each.message)] for each in not_used]
        parts.append(
            ("Not used", _table("Inputs that were not used", [_Column("input", "name"), _Column("why", "long")], rows))
        )
    links = "".join(f'<a href="#s{number}">{escape(name)}</a>' for number, (name, _) in enumerate(parts))
    sections = [f'<h2 id="s{number}">{escape(name)}</h2>\n{content}' for number, (name, content) in enumerate(parts)]
    body = [
        f"<p>{every.submissions} submissions to {every.problems} problems: {every.right} right. "
        f"{summary.results} results from {summary.gradings} gradings.</p>",
        _figures(every),
        f"<nav>{links}</nav>",
        *sections,
    ]
    return _PAGE.format(title=escape(title), style=_STYLE, body="\n".join(body))


def _figures(every: GroupSummary) -> str:
    """What is asked first."""
    cards = []
    if every.submissions:
        cards.append(("right", _share(every.right / every.submissions), f"{every.right} of {every.submissions}"))
    if (share := every.fast_p.get("1")) is not None:
        cards.append(
            ("right and faster than the reference", _share(share), f"{_share(every.fast_p_surely.get('1'))} surely")
        )
    if every.speedup is not None:
        cards.append(("speedup of the right ones", speedup(every), f"95 %: {interval(every)}"))
    boxes = (
        f'<div><dt>{name}</dt><dd class="figure">{figure}</dd><dd class="more">{more}</dd></div>'
        for name, figure, more in cards
    )
    return f"<dl>{''.join(boxes)}</dl>" if cards else ""


_GROUPS_NOTE = (
    '<p class="note">fast<sub>p</sub>: right and more than p times as fast as the reference; below it, in small, '
    "surely: the speedup's whole 95 % interval lies above p. pass@k: the chance that one of k submissions is right. "
    "Speedups are geometric means over the right submissions, with their 95 % intervals.</p>"
)


def _groups(groups: Sequence[GroupSummary]) -> str:
    ps = list(groups[0].fast_p)
    ks = list(dict.fromkeys(k for group in groups for k in group.pass_at_k))
    ks.sort(key=int)
    heads = ["right", "speedup", *(f"fast<sub>{p}</sub>" for p in ps), *(f"pass@{k}" for k in ks)]
    rows = [
        [
            escape(group.name),
            f"{group.right} of {group.submissions}",
            speedup(group) + _below(interval(group) if group.speedup_ci95 else ""),
            *(_share(group.fast_p.get(p)) + _below(_share(group.fast_p_surely.get(p))) for p in ps),
            *(_share(group.pass_at_k.get(k)) for k in ks),
        ]
        for group in groups
    ]
    sums = sum(group.kind != "problem" for group in groups)
    return _table("Results by problem", [_Column("problem", "name"), *(_Column(head) for head in heads)], rows, sums)


def _plot(drawing: str) -> str:
    return f'<div class="plot">{drawing}</div>'


def _below(words: str) -> str:
    return f"<small>{words}</small>" if words else ""


def speedup(group: GroupSummary) -> str:
    """The geometric mean in words."""
    return "-" if group.speedup is None else f"{group.speedup:.3g}x"


def interval(group: GroupSummary) -> str:
    """Its interval in words."""
    if group.speedup_ci95 is None:
        return "-"
    low, high = group.speedup_ci95
    return "unknown" if math.isinf(high) else f"{low:.3g} to {high:.3g}"


def _failures(summary: Summary) -> str:
    rows = [
        [
            escape(each.reason),
            str(each.gradings),
            escape(each.diagnostic or each.message),
            escape(_some(each.problems)),
            "".join(f"<div>{escape(example)}</div>" for example in each.examples),
        ]
        for each in summary.failures
    ]
    columns = [
        _Column("reason", "name"), _Column("results"), _Column("first diagnostic, or the first message", "long"),
        _Column("problems", "long"), _Column("for example", "long"),
    ]  # fmt: skip
    return _table("Ways of failing", columns, rows)


def _some(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_LISTED])} and {more} more"


def _stages(summary: Summary) -> str:
    rows = [
        [
            escape(each.name),
            f"{each.seconds:.1f} s",
            f"{each.mean_s:.2f} s",
            escape(", ".join(f"{name} {seconds:.1f} s" for name, seconds in each.slowest)),
        ]
        for each in summary.stages
    ]
    return _table(
        "Seconds by stage",
        [_Column("stage", "name"), _Column("all"), _Column("mean"), _Column("slowest", "long")],
        rows,
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _table(label: str, columns: Sequence[_Column], rows: Sequence[Sequence[str]], sums: int = 0) -> str:
    """Cells are HTML already. The first `sums` rows are of several others."""
    top = "".join(f'<th scope="col"{_CLASS[column.kind]}>{column.head}</th>' for column in columns)
    lines = []
    for number, row in enumerate(rows):
        cells = (
            f'<th scope="row">{cell}</th>' if column.kind == "name" else f"<td{_CLASS[column.kind]}>{cell}</td>"
            for column, cell in zip(columns, row, strict=True)
        )
        kind = ' class="sum"' if number < sums else ""
        lines.append(f"<tr{kind}>{''.join(cells)}</tr>")
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    # With the keyboard it is scrolled once it has the focus.
    return f'<div class="wide" tabindex="0" role="region" aria-label="{label}">{table}</div>'


_CLASS = {"name": "", "figure": ' class="n"', "long": ' class="long"'}
