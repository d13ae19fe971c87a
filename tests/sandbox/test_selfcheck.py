"""Each sandbox keeps what it promises here, and the check would notice one that does not."""

from __future__ import annotations

import json

import pytest

from harness import sandbox as sandboxes
from harness.cli.main import main
from harness.sandbox import SANDBOXES, PlainSandbox, selfcheck


@pytest.mark.parametrize("name", SANDBOXES)
def test_a_sandbox_keeps_what_it_promises(name: str) -> None:
    kind = SANDBOXES[name]
    if why := kind.unavailable():
        pytest.skip(why)
    properties = selfcheck.check(kind())
    assert [each.name for each in properties] == list(selfcheck.PROPERTIES)
    assert selfcheck.faults(properties) == []
    # What is not promised here is said with a reason, and nothing else is missing.
    missing = {each.name for each in properties if not each.holds}
    assert missing <= (kind.degraded().keys() if kind.promises == selfcheck.ALL else selfcheck.ALL - kind.promises)
    assert all(each.detail for each in properties)


class Boastful(PlainSandbox):
    """Isolates nothing and says that it does."""

    promises = selfcheck.ALL


def test_a_sandbox_that_does_not_isolate_is_found_out() -> None:
    faults = {each.name for each in selfcheck.faults(selfcheck.check(Boastful()))}
    assert faults >= {"namespaces", "system_calls", "files", "private_folders", "network"}


def test_the_command_says_what_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["sandbox", "--json"])
    said = json.loads(capfd.readouterr().out)
    assert [each["name"] for each in said["sandboxes"]] == list(SANDBOXES)
    assert said["default"] == sandboxes.default().name
    assert code == (0 if said["usable"] else 1)
    for each in said["sandboxes"]:
        assert each["broken"] == []
        assert bool(each["properties"]) == (each["unavailable"] is None)


def test_no_isolation_by_default_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandboxes, "SANDBOXES", {PlainSandbox.name: PlainSandbox})
    assert main(["sandbox"]) == 1
    assert "none (the default here)" in capfd.readouterr().out
