"""`harness serve`, an agent, a client: as a person would use them, with a real grading."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from server_fakes import ROOT, SOURCE, has_interval

from harness import sandbox
from harness.cli.main import main
from harness.client import Client


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "harness", "serve", "--json", "--port", "0", *arguments]
    env = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    server = start(*arguments)
    try:
        assert server.stdout is not None
        yield server, json.loads(server.stdout.readline())
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
        server.wait(60)


@pytest.mark.slow
def test_a_fresh_server_grades_what_is_posted(
    tmp_path: Path, problems: Path, empty_url: str, capsys: pytest.CaptureFixture[str]
):
    if sandbox.default().name == "none":
        pytest.skip("an agent needs a sandbox, and none works here")
    where = ["--data", str(tmp_path), "--database", empty_url, "--problems", str(problems)]
    with serving(*where, "--devices", "cpu") as (server, started):
        url, key = started["url"], started["key"]
        with Client(url, key) as client:
            one = client.submit("scaled", SOURCE, device="cpu")
            events = list(client.watch(one["id"]))
            kinds = [event.kind for event in events]
            assert kinds[:2] == ["queued", "claimed"]
            stages = [event.data["stage"] for event in events if event.kind == "stage_ended"]
            assert stages == ["load", "build", "check", "time", "audit", "judge"]
            done = events[-1].data
            assert (events[-1].kind, done["verdict"]) == ("done", "accepted"), done["report"]
            assert done["report"]["submission"]["path"] is None
            # On a CPU that other work shared, a time has no interval, and then no board shows it.
            shown = has_interval(done["report"])
            times = [entry["time_us"] for entry in client.leaderboard("scaled")["entries"]]
            assert times == ([done["report"]["timing"]["candidate"]["median_us"]] if shown else [])
        arguments = ["--server", url, "--key", key]
        assert main(["status", one["id"], *arguments]) == 0
        assert main(["leaderboard", "scaled", *arguments, "--json"]) == 0
        assert ('"user": "local"' in capsys.readouterr().out) is shown
        # Told to stop with work in hand, it finishes that first.
        with Client(url, key) as client:
            last = client.submit("scaled", "def f(:\n", device="cpu", mode="check", file_name="bad.py")
            for event in client.watch(last["id"]):
                if event.kind == "claimed":
                    server.send_signal(signal.SIGTERM)
                    break
        assert server.wait(60) == 0
    with serving(*where, "--devices", "none") as (_, again):
        with Client(again["url"], again["key"]) as client:
            ended = client.submission(last["id"])
            assert ended["reason_code"] == "submission.syntax_error"
            assert ended["report"]["reason"]["message"].startswith("bad.py has a syntax error in line 1")
        assert (
            httpx.get(f"{again['url']}/v1/submissions", headers={"Authorization": f"Bearer {key}"}).status_code == 401
        )


@pytest.mark.slow
def test_a_server_that_is_killed_loses_nothing_and_leaves_no_agent(tmp_path: Path, problems: Path):
    if sandbox.default().name == "none":
        pytest.skip("an agent needs a sandbox, and none works here")
    arguments = ["--data", str(tmp_path), "--problems", str(problems), "--devices", "cpu", "--lease", "3"]
    with serving(*arguments) as (server, started):
        (agent,) = psutil.Process(server.pid).children()
        with Client(started["url"], started["key"]) as client:
            made = [client.submit("scaled", SOURCE, device="cpu", mode="check")["id"] for _ in range(2)]
            claimed = next(event for event in client.watch(made[0]) if event.kind == "claimed")
            assert claimed.data["attempt"] == 1
        server.kill()
    agent.wait(30)
    with serving(*arguments) as (_, started), Client(started["url"], started["key"]) as client:
        ends = [list(client.watch(one)) for one in made]
    assert [[event.kind for event in events].count("done") for events in ends] == [1, 1]
    assert [events[-1].data["verdict"] for events in ends] == ["accepted", "accepted"]
    assert [events[-1].data["attempts"] for events in ends] == [2, 1]


def test_it_listens_beyond_this_machine_only_with_keys(tmp_path: Path, problems: Path, capfd: Any):
    arguments = ["--data", str(tmp_path), "--problems", str(problems), "--devices", "none", "--host", "0.0.0.0"]
    assert main(["serve", "--json", "--port", "0", *arguments]) == 2
    assert "harness keys create" in capfd.readouterr().err
    assert main(["keys", "create", "ada", "--data", str(tmp_path)]) == 0
    key = capfd.readouterr().out.strip()
    with serving(*arguments) as (_, started):
        assert started["key"] is None
        url = started["url"].replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{url}/v1/submissions", headers={"Authorization": f"Bearer {key}"}).status_code == 200
        assert httpx.get(f"{url}/healthz", headers={"X-Long": "x" * (33 << 10)}).status_code == 431


@pytest.mark.parametrize("url", ["of its own", "shared"])
def test_a_second_server_that_can_not_start_leaves_the_first_alone(
    tmp_path: Path, problems: Path, url: str, capfd: Any
):
    def where(data: str) -> list[str]:
        shared = ["--database", f"sqlite:///{tmp_path / 'shared.db'}"] if url == "shared" else []
        return ["--data", str(tmp_path / data), *shared, "--problems", str(problems), "--devices", "none"]

    with serving(*where("one")) as (server, started):
        port = str(httpx.URL(started["url"]).port)
        assert main(["serve", "--port", "0", *where("one")]) == 2
        told = capfd.readouterr().err
        assert f"another harness serve (process {server.pid}) has the data folder {tmp_path / 'one'}" in told
        assert "--data" in told
        assert main(["serve", "--port", port, *where("two")]) == 2
        assert "`--port 0` picks a free one, or stop the other" in capfd.readouterr().err
        with Client(started["url"], started["key"]) as client:
            assert list(client.submissions()) == []
            # One that does start, on the same database, has keys of its own.
            with serving(*where("two")) as (_, other), Client(other["url"], other["key"]) as beside:
                assert list(beside.submissions()) == list(client.submissions()) == []
            assert list(client.submissions()) == []


def test_keys_are_made_listed_and_revoked(tmp_path: Path, capfd: Any):
    data = ["--data", str(tmp_path)]
    assert main(["keys", "create", "ada", "--role", "admin", *data]) == 0
    key_id = capfd.readouterr().out.split("_")[1]
    assert main(["keys", "create", "no good", *data]) == 2
    assert main(["keys", "create", "ada", "--role", "king", *data]) == 2
    assert main(["keys", "revoke", key_id, *data]) == 0
    assert main(["keys", "revoke", "none", *data]) == 2
    capfd.readouterr()
    assert main(["keys", "list", *data, "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == [
        {"id": key_id, "user": "ada", "role": "admin", "label": "", "revoked": True}
    ]


def test_an_agent_without_a_sandbox_does_not_start(monkeypatch: pytest.MonkeyPatch, capfd: Any):
    monkeypatch.setattr(sandbox, "default", sandbox.PlainSandbox)
    assert main(["agent", "--server", "http://127.0.0.1:9", "--key", "k", "--device", "cpu"]) == 2
    assert "install bubblewrap" in capfd.readouterr().err


def test_clients_say_what_is_wrong(tmp_path: Path, problems: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any):
    for name in ("HARNESS_SERVER", "HARNESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HARNESS_CONFIG", str(tmp_path / "config.toml"))
    file = tmp_path / "bad.py"
    file.write_text(SOURCE)
    assert main(["status", "x", "--server", "http://127.0.0.1:9"]) == 2
    told = capfd.readouterr().err
    assert told.count("can't be reached") == 2  # the first try and the end
    assert told.count("still so; trying again") == 1
    assert "harness serve starts a server" in told
    arguments = ["--data", str(tmp_path / "data"), "--problems", str(problems), "--devices", "none"]
    with serving(*arguments) as (_, started):
        monkeypatch.setenv("HARNESS_SERVER", started["url"])

        def told_of(code: int, *command: str) -> tuple[str, str]:
            assert main(list(command)) == code
            told = capfd.readouterr()
            assert "Bearer" not in told.err
            assert "/v1" not in told.err
            assert "Errno" not in told.err
            return told.out, told.err

        assert "harness config set key" in told_of(2, "submit", "scaled", str(file))[1]
        wrong = f"kh_{'0a' * 8}_{'s' * 43}"
        assert "harness serve makes new keys at each start" in told_of(2, "status", "x", "--key", wrong)[1]
        monkeypatch.setenv("HARNESS_KEY", started["key"])
        assert "scaled was probably meant" in told_of(2, "submit", "scald", str(file))[1]
        assert "there are other, scaled" in told_of(2, "leaderboard", "unlike")[1]
        assert "the problem's id on the server, such as scaled" in told_of(2, "submit", "none/scaled", str(file))[1]
        assert (
            f"there is no file {tmp_path / 'none.py'}" in told_of(2, "submit", "scaled", str(tmp_path / "none.py"))[1]
        )
        out, err = told_of(0, "submit", str(problems / "scaled"), str(file), "--device", "cuda", "--label", "mine")
        one = out.strip()
        assert f"next: harness status {one}" in err
        assert "no agent for cuda that has this problem is here now; it waits until one comes" in err
        out, err = told_of(0, "status", one, "--json")
        shown = json.loads(out)
        assert (shown["problem"], shown["label"], shown["file_name"]) == ("scaled", "mine", "bad.py")
        assert shown["waits_for"] == "cuda"
        assert "no agent for cuda" in err
