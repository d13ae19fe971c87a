"""`harness submit`, `status` and `leaderboard`: thin clients of a server."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.config import warn_if_exposed
from harness.cli.errors import guarded
from harness.cli.signals import say
from harness.cli.streams import WrongUse
from harness.cli.text import one_line

if TYPE_CHECKING:
    from harness.client import Client, ClientError

Server = Annotated[str | None, typer.Option(metavar="URL", help="The server; default: harness config's.")]
Key = Annotated[
    str | None, typer.Option(help="Your key; default: harness config's, which is better than here.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]


def _client(server: str | None, key: str | None, *, retries: int = 2) -> Client:
    try:
        from harness.client import Client, Patience
    except ImportError as error:
        raise WrongUse(f"{error.name} is missing: pip install 'kernel-harness[server]' brings it.") from None
    warn_if_exposed()
    with _wrong_use():
        return Client(
            server,
            key,
            patience=Patience(retries=retries),
            on_pause=_Pauses().say,
        )


class _Pauses:
    """Says why it is tried again, each reason once."""

    def __init__(self) -> None:
        self._told = ""

    def say(self, seconds: float, error: Exception) -> None:
        """Before a pause."""
        again, why = f"trying again in {max(1, round(seconds))} s", str(error)
        say(f"still so; {again}" if why == self._told else f"{why.removesuffix('.')}; {again}")
        self._told = why


@guarded
def submit(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="The problem's id on the server.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file with a class ModelNew.")],
    server: Server = None,
    key: Key = None,
    device: Annotated[str | None, typer.Option(metavar="cpu|cuda", help="Default: a GPU where there is one.")] = None,
    workload: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    mode: Annotated[str, typer.Option(metavar="run|check|profile")] = "run",
    label: Annotated[str | None, typer.Option(help="A name for lists; default: the file's.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Wait for the verdict; the exit code is harness run's.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Hand a file in to a server."""
    problem, source = _problem_id(problem), _source(file)
    # Who waits for a verdict wants it even if the server is away for a while.
    with _client(server, key, retries=10 if watch else 2) as client, _wrong_use():
        found = client.submit(
            problem,
            source,
            device=device,
            workload=workload,
            mode=mode,
            label=file.name if label is None else label,
            file_name=file.name,
        )
        _say_what_it_waits_for(found)
        if not watch:
            print(json.dumps(found, indent=2) if as_json else found["id"])
            say(f"next: harness status {found['id']}")
            return 0
        for event in client.watch(found["id"]):
            if event.kind in ("done", "cancelled"):
                found = event.data
            elif event.kind != "progress":
                print(one_line(_told(event.kind, event.data)), file=sys.stderr)
    return _show(found, as_json=as_json)


def _problem_id(given: str) -> str:
    """The problem's id; also of its folder, which the other commands take."""
    folder = Path(given)
    if (folder / "problem.toml").is_file():
        return folder.resolve().name
    if "/" in given:
        raise WrongUse(
            f"there is no problem folder {given}; what is meant here is the problem's id on the server, such as "
            f"{folder.name or 'selective_scan'}."
        )
    return given


def _source(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise WrongUse(f"there is no file {file}; check the path.") from None
    except OSError as error:
        raise WrongUse(f"{file} can't be read: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        raise WrongUse(f"{file} is not UTF-8 (position {error.start}); save it as UTF-8.") from None


def _say_what_it_waits_for(found: dict[str, Any]) -> None:
    from harness.client.answers import no_agent

    if kind := found.get("waits_for"):
        say(one_line(no_agent(str(kind))))


@guarded
def status(
    submission: Annotated[str, typer.Argument(metavar="ID", help="As harness submit printed it.")],
    server: Server = None,
    key: Key = None,
    as_json: AsJson = False,
) -> int:
    """Show how far a submission is, or how it came out; the exit code is harness run's once it is done."""
    with _client(server, key) as client, _wrong_use():
        found = client.submission(submission)
    _say_what_it_waits_for(found)
    return _show(found, as_json=as_json)


@guarded
def leaderboard(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="The problem's id on the server.")],
    server: Server = None,
    key: Key = None,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="Default: the one with the most entries.")] = None,
    workload: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    as_json: AsJson = False,
) -> int:
    """Show who is fastest."""
    with _client(server, key) as client, _wrong_use():
        board = client.leaderboard(_problem_id(problem), device, workload)
    if as_json:
        print(json.dumps(board, indent=2))
        return 0
    from harness.client.marks import entry_line, marks_of

    print(one_line(f"{board['problem']} ({board['workload'] or 'no workload'}) on {board['device'] or 'no device'}"))
    for entry in board["entries"]:
        print(one_line(entry_line(entry)))
    for mark in marks_of(board["entries"]):
        say(f"{mark.short}: {mark.sentence[0].lower()}{mark.sentence[1:]}")
    return 0


def _told(kind: str, data: dict[str, Any]) -> str:
    if kind == "claimed":
        return f"taken, on {data.get('device')}"
    if kind == "stage_ended":
        return f"{data.get('stage')} {data.get('seconds', 0):.2f} s"
    return f"{kind.replace('_', ' ')} {data.get('stage', '')}".strip()


def _show(found: dict[str, Any], *, as_json: bool) -> int:
    report = found.get("report")
    if as_json:
        print(json.dumps(found, indent=2))
    elif report is None:
        place = f", place {found['queue_place']} in the queue" if found.get("queue_place") else ""
        print(f"{found['state']}{place}")
    else:
        print(one_line(f"{found['verdict'].upper()}  {report['reason']['message']}", 1000))
        for finding in (report.get("profile") or {}).get("findings", ()):
            gain = "" if finding["gain"] is None else f"about {100 * finding['gain']:.2g} % of a call: "
            print(one_line(f"{gain}{finding['message']} {finding['advice']}", 1000))
    if report is None:
        return 1 if found["state"] == "cancelled" else 0
    if found["verdict"] == "judge_error":
        return 3
    return 0 if found["verdict"] == "accepted" else 1


class _wrong_use:
    """What the client says no to is wrong use, with its sentence."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from harness.client import ClientError

        if isinstance(error, ClientError):
            raise WrongUse(_in_words_of_the_command_line(error)) from None


def _in_words_of_the_command_line(error: ClientError) -> str:
    """The client's sentence, with what to type next."""
    from harness.client import Refused, Unreachable

    if isinstance(error, Unreachable):
        return f"{error} harness serve starts a server on this machine; harness config shows which address is used."
    code = error.code if isinstance(error, Refused) else ""
    if code == "no-key":
        return (
            "the server wants to know who you are: harness config set key KEY, or HARNESS_KEY=KEY in the environment."
        )
    if code == "unknown-key":
        return (
            f"{error} harness serve makes new keys at each start: give the one that it printed last to "
            "harness config set key."
        )
    return str(error)
