"""A summary as one HTML file that needs nothing else: no script, no font, no other address."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.batch.inputs import BadInput
from harness.batch.summary import GroupSummary, Summary
from harness.batch.svg import curve, escape, legend, stacked, strips

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ margin: 1.5rem auto; max-width: 70rem; padding: 0 1rem; background: #fff; color: #111;
  font: 15px/1.45 system-ui, sans-serif }}
svg {{ width: 100%; max-width: 60rem; height: auto; font-family: inherit }}
.wide {{ overflow-x: auto }}
table {{ border-collapse: collapse; margin: 0.5rem 0 }}
th, td {{ padding: 0.2rem 0.6rem; text-align: left; vertical-align: top; border-bottom: 1px solid #ddd;
  overflow-wrap: anywhere }}
td.n {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }}
</style>
<h1>{title}</h1>
{body}
</html>
"""


def page(summary: Summary, title: str, not_used: Sequence[BadInput] = ()) -> str:
    """The page's text."""
    every = summary.groups[0]
    problems = [group for group in summary.groups if group.kind == "problem"]
    timed = [(group.name, group.speedups, group.speedup) for group in problems if group.speedups]
    body = [
        f"<p>{every.submissions} submissions to {every.problems} problems: {every.right} right. "
        f"{summary.results} results from {summary.gradings} gradings.</p>",
        "<p>Surely: those whose speedup's whole 95 % interval lies above p.</p>",
        _groups(summary.groups),
        "<h2>Verdicts</h2>",
        f"<p>{legend(list(every.verdicts))}</p>",
        stacked([(group.name, group.verdicts) for group in problems]),
        "<h2>Right and faster than p times the reference</h2>",
        curve(every.speedups, every.submissions),
    ]
    if timed:
        body += [
            "<h2>Speedups</h2><p>A dot for each right submission, a line at the geometric mean.</p>",
            strips(timed),
        ]
    body += [_failures(summary), _stages(summary)]
    if not_used:
        rows = [[escape(each.place), escape(each.message)] for each in not_used]
        body.append("<h2>Not used</h2>" + _table(["input", "why"], rows, figures=0))
    return _PAGE.format(title=escape(title), body="\n".join(body))


def _groups(groups: Sequence[GroupSummary]) -> str:
    ps = list(groups[0].fast_p)
    ks = list(dict.fromkeys(k for group in groups for k in group.pass_at_k))
    ks.sort(key=int)
    head = ["", "submissions", "right", *(f"fast<sub>{p}</sub>" for p in ps), *(f"pass@{k}" for k in ks), "speedup"]
    rows = [
        [
            escape(group.name),
            str(group.submissions),
            str(group.right),
            *(f"{_share(group.fast_p.get(p))}<div>{_share(group.fast_p_surely.get(p))} surely</div>" for p in ps),
            *(_share(group.pass_at_k.get(k)) for k in ks),
            speedup(group),
        ]
        for group in groups
    ]
    return _table([*head, "95 %"], [[*row, interval(group)] for row, group in zip(rows, groups, strict=True)])


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
    if not summary.failures:
        return ""
    rows = [
        [
            str(each.gradings),
            escape(each.reason),
            escape(each.diagnostic or each.message),
            escape(", ".join(each.problems)),
            escape(", ".join(each.examples)),
        ]
        for each in summary.failures
    ]
    head = ["results", "reason", "first diagnostic, or the first message", "problems", "for example"]
    return "<h2>What failed</h2>" + _table(head, rows, figures=0)


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
    return "<h2>Stages</h2>" + _table(["stage", "all", "mean", "slowest"], rows, figures=0)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], figures: int = 1) -> str:
    """Cells are HTML already. From the column `figures` on they are figures, unless that is 0."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    lines = []
    for row in rows:
        cells = (
            f'<td class="n">{cell}</td>' if figures and place >= figures else f"<td>{cell}</td>"
            for place, cell in enumerate(row)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="wide"><table><tr>{top}</tr>{"".join(lines)}</table></div>'
