"""`harness config`: which server and key the other commands use, and why."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from harness import settings
from harness.cli.errors import guarded
from harness.cli.signals import say
from harness.cli.text import one_line
from harness.settings import SETTINGS, Found, look_up

app = typer.Typer(
    help="Show or set the server and the key that submit, status, leaderboard and agent use. A flag goes before the "
    "environment, that before the file, and that before the default.",
    invoke_without_command=True,
)

Name = Annotated[str, typer.Argument(metavar="|".join(SETTINGS))]


def warn_if_exposed() -> None:
    """Say so when others can read the key."""
    if told := settings.exposed():
        say(told)


@app.callback()
def show(
    context: typer.Context,
    server: Annotated[str | None, typer.Option(metavar="URL", help="As if given to the other commands.")] = None,
    key: Annotated[str | None, typer.Option(help="The same.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Show each setting, its value and where it is from; a key without its secret."""
    if context.invoked_subcommand is None:
        _show([("server", server), ("key", key)], as_json)


@guarded
def _show(given: list[tuple[str, str | None]], as_json: bool) -> int:
    found = [look_up(name, value) for name, value in given]
    path = settings.settings_path()
    if as_json:
        told = [
            {"name": one.setting.name, "value": one.shown, "origin": one.origin, "where": one.where or None}
            for one in found
        ]
        print(json.dumps({"file": str(path), "settings": told}, indent=2))
    else:
        for one in found:
            print(one_line(f"{one.setting.name} {one.shown or '(none)'} {_from(one)}", 1000))
        say(f"the file is {path}{'' if path.exists() else ', which does not exist yet'}")
    warn_if_exposed()
    return 0


def _from(found: Found) -> str:
    return f"({found.origin})" if not found.where else f"({found.origin}: {found.where})"


@app.command("set")
@guarded
def set_(
    name: Name,
    value: Annotated[
        str | None, typer.Argument(help="Left out: asked for, or read from stdin, and in no shell's history.")
    ] = None,
) -> int:
    """Write a setting to the file, which only you can read."""
    if value is None:
        secret = name in SETTINGS and SETTINGS[name].secret
        asked = sys.stdin.isatty()
        value = str(typer.prompt(name, hide_input=secret, err=True)) if asked else sys.stdin.readline().strip()
    path = settings.change(name, value)
    say(f"{name} is set in {path}")
    if (found := look_up(name)).origin == "environment":
        say(f"{found.where} in the environment goes before it")
    return 0


@app.command()
@guarded
def unset(name: Name) -> int:
    """Take a setting out of the file."""
    path = settings.change(name, None)
    say(f"{name} is not set in {path} any more")
    return 0
