"""`harness cache`: what finished builds take, and making room."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.errors import guarded
from harness.cli.streams import WrongUse

if TYPE_CHECKING:
    from harness.build.cache import BuildCache

app = typer.Typer(help="The cache of finished builds.", no_args_is_help=True)

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text: str) -> int:
    """Bytes of a size such as 500M or 2G; raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(f"{text!r} is not a size: write a number with K, M, G or T, such as 2G")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def readable_size(count: int) -> str:
    """Bytes with the unit that keeps them short."""
    unit = next((unit for unit in reversed(_UNITS) if count >= _UNITS[unit]), "")
    value = count / _UNITS[unit]
    return f"{value:.0f}{unit}" if unit in ("", "K") else f"{value:.1f}{unit}"


def _ago(unix: float) -> str:
    seconds = max(0.0, time.time() - unix)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now"


def _cache() -> BuildCache:
    # Here, so that the command line can start without it.
    from harness.build.cache import BuildCache

    return BuildCache()


@app.command("list")
@guarded
def list_() -> int:
    """List the builds in the cache, the one used last first."""
    cache = _cache()
    items = cache.items()
    for item in items:
        state = "built" if item.ok else "failed"
        typer.echo(f"{item.key[:12]}  {state:<6}  {readable_size(item.bytes):>7}  {_ago(item.used):<12}  {item.name}")
    total, headers = sum(item.bytes for item in items), cache.header_bytes()
    typer.echo(f"{len(items)} builds, {readable_size(total)}; headers {readable_size(headers)}", err=True)
    return 0


@app.command()
@guarded
def prune(
    max_size: Annotated[str | None, typer.Option(metavar="SIZE", help="What may stay, such as 2G.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Empty the cache.")] = False,
) -> int:
    """Remove the builds used longest ago until the rest fits. Builds used in the last minutes stay, unless all go."""
    if (max_size is None) is not everything:
        raise WrongUse("say what may stay: --max-size SIZE, such as 2G, or --all to empty the cache.")
    try:
        limit = 0 if max_size is None else parse_size(max_size)
    except ValueError as error:
        raise WrongUse(f"--max-size {error}.") from None
    cache = _cache()
    gone = cache.prune(limit, spared_s=0.0) if limit == 0 else cache.prune(limit)
    headers = cache.drop_headers() if limit == 0 else 0
    freed = sum(item.bytes for item in gone) + headers
    typer.echo(f"removed {len(gone)} builds, {readable_size(freed)}")
    return 0


@app.command()
@guarded
def path() -> int:
    """Print the folder of the cache."""
    typer.echo(str(_cache().root))
    return 0
