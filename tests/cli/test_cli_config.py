"""`harness config`: a flag before the environment before the file before the default, and a key that stays secret."""

from __future__ import annotations

import io
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.settings import look_up

KEY = f"kh_{'0a' * 8}_{'s' * 43}"


@pytest.fixture(autouse=True)
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "folder" / "config.toml"
    monkeypatch.setenv("HARNESS_CONFIG", str(path))
    for name in ("HARNESS_SERVER", "HARNESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    return path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, tuple[str | None, str]]:
    assert main(["config", "--json", *arguments]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {one["name"]: (one["value"], one["origin"]) for one in told["settings"]}


def test_each_goes_before_the_next(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    assert shown(capsys) == {"server": ("http://127.0.0.1:8000", "default"), "key": (None, "default")}
    assert main(["config", "set", "server", "https://file.example"]) == 0
    assert shown(capsys)["server"] == ("https://file.example", "file")
    monkeypatch.setenv("HARNESS_SERVER", "https://environment.example")
    assert shown(capsys)["server"] == ("https://environment.example", "environment")
    assert shown(capsys, "--server", "https://flag.example")["server"] == ("https://flag.example", "flag")
    monkeypatch.setenv("HARNESS_SERVER", "")
    assert main(["config", "unset", "server"]) == 0
    assert shown(capsys)["server"] == ("http://127.0.0.1:8000", "default")


def test_a_key_is_kept_from_others(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{KEY}\n"))
    assert main(["config", "set", "key"]) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert look_up("key").value == KEY
    assert main(["config"]) == 0
    told = capsys.readouterr()
    assert "sss" not in told.out + told.err
    assert f"key kh_{'0a' * 8}_... (file: {file})" in told.out
    assert "chmod" not in told.err
    file.chmod(0o640)
    assert main(["config"]) == 0
    assert f"chmod 600 {file}" in capsys.readouterr().err
    # Writing the file mends it, and what was in it stays.
    assert main(["config", "set", "server", "http://x.example"]) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert look_up("key").value == KEY
    assert shown(capsys, "--key", "no-form")["key"] == ("(7 characters)", "flag")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("server = ", "can't be read"),
        ("sever = 'x'", "'sever', which does not exist"),
        ("key = 3", "no text"),
        ("[server]\n", "no text"),
        ("\udcff", "can't be read"),
    ],
)
def test_a_broken_file_is_named(file: Path, text: str, told: str, capsys: pytest.CaptureFixture[str]):
    file.parent.mkdir()
    file.write_bytes(text.encode(errors="surrogateescape"))
    for command in (["config"], ["config", "set", "server", "http://x.example"], ["status", "x"]):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert told in error
        assert str(file) in error
        assert "Traceback" not in error
    assert file.read_bytes() == text.encode(errors="surrogateescape")


def test_wrong_use_gets_a_sentence(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    for arguments in (
        ["set", "sever", "x"],
        ["set", "server", "a\nb"],
        ["set", "server", " "],
        ["unset", "sever"],
        ["set", "server", "nonsense"],
        ["set", "server", "http://"],
    ):
        assert main(["config", *arguments]) == 2
        assert capsys.readouterr().err.startswith("harness: ")
    for address in ("nonsense", "http://", "http://[::1", "ftp://x.example"):
        assert main(["config", "set", "server", address]) == 2
        assert f"{address} is no address of a server" in capsys.readouterr().err
    assert not file.exists()
    monkeypatch.setenv("HARNESS_CONFIG", "/proc/none/config.toml")
    assert main(["config", "set", "server", "http://x.example"]) == 2
    assert "can't be written" in capsys.readouterr().err
    monkeypatch.setenv("HARNESS_CONFIG", str(file))
    # An agent needs a key.
    assert main(["agent", "--device", "cpu"]) == 2
    assert "harness config set key" in capsys.readouterr().err


def test_any_text_survives_the_file():
    for text in ('a"b\\c', "ü\N{SNOWMAN} = [x] #", "'''", "\N{GRINNING FACE}"):
        assert main(["config", "set", "key", text]) == 0
        assert look_up("key").value == text
