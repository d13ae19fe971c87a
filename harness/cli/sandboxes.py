"""`harness sandbox`: which sandboxes work here, what each of them keeps, and why not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from harness.cli import text
from harness.cli.errors import guarded
from harness.cli.listing import AsJson
from harness.cli.streams import claimed_stdout, console

if TYPE_CHECKING:
    from rich.table import Table

    from harness.sandbox.base import Sandbox
    from harness.sandbox.selfcheck import Property


@guarded
def sandbox(as_json: AsJson = False) -> int:
    """Try every sandbox: what each keeps here, and why not. Exit code 1 when the default one does not isolate."""
    with claimed_stdout() as stdout:
        from harness.sandbox import SANDBOXES, PlainSandbox, default
        from harness.sandbox.selfcheck import faults

        chosen = default()
        found = {name: _examine(kind) for name, kind in SANDBOXES.items()}
        why_not, properties = found[chosen.name]
        usable = chosen.name != PlainSandbox.name and why_not is None and not faults(properties)
        if as_json:
            print(json.dumps(_document(found, chosen.name, usable=usable), indent=2), file=stdout)
        else:
            rich = console(stdout)
            for name, (why_not, properties) in found.items():
                rich.print(_table(name, why_not, properties, is_default=name == chosen.name))
    return 0 if usable else 1


def _examine(kind: type[Sandbox]) -> tuple[str | None, list[Property]]:
    """Why it can't be used, or what it keeps."""
    from harness.sandbox.base import SandboxError
    from harness.sandbox.selfcheck import check

    if why := kind.unavailable():
        return why, []
    try:
        return None, check(kind())
    except (SandboxError, OSError) as error:
        return f"a trial failed: {error}", []


def _document(found: dict[str, tuple[str | None, list[Property]]], default: str, *, usable: bool) -> dict[str, Any]:
    from dataclasses import asdict

    from harness.sandbox.selfcheck import faults

    return {
        "default": default,
        "usable": usable,
        "sandboxes": [
            {
                "name": name,
                "unavailable": why_not,
                "broken": [each.name for each in faults(properties)],
                "properties": [asdict(each) for each in properties],
            }
            for name, (why_not, properties) in found.items()
        ],
    }


def _table(name: str, why_not: str | None, properties: list[Property], *, is_default: bool) -> Table:
    from rich import box
    from rich.table import Table

    title = f"{name}{' (the default here)' if is_default else ''}"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", show_header=False)
    for style in ("bold", "", ""):
        table.add_column(style=style, overflow="fold")
    if why_not is not None:
        table.add_row("can't be used", "", text.one_line(why_not, 600))
    for each in properties:
        word = "yes" if each.holds else "BROKEN" if each.promised else "no"
        table.add_row(each.name, word, text.one_line(each.detail, 400))
    return table
