"""What is Docker's alone: containers that nobody ends, and what is said where there is no daemon."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from harness.sandbox import Command, DockerSandbox, Limits, Mount, SandboxError, containers
from harness.sandbox.mounts import interpreter_mounts


@pytest.fixture
def client() -> Any:
    if why := DockerSandbox.unavailable():
        pytest.skip(why)
    made = containers._connect()
    yield made
    made.close()


def names(client: Any) -> list[str]:
    found = client.api.containers(all=True, filters={"label": containers._LABEL})
    return [name.lstrip("/") for each in found for name in each["Names"]]


def test_a_container_that_never_ran_is_swept(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a grader leaves it that was killed between making and starting it."""
    made = client.api.create_container(containers._IMAGE, command=["/x"], labels={containers._LABEL: "1"})
    containers._sweep(client)
    assert len(names(client)) == 1, "it is not old enough"
    monkeypatch.setattr(containers, "_STALE_S", -10.0)
    containers._sweep(client)
    assert names(client) == []
    assert made["Id"]


def test_a_container_is_gone_when_its_command_is(client: Any) -> None:
    command = Command(
        argv=(sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"), mounts=interpreter_mounts()
    )
    with DockerSandbox().start(command, Limits()):
        assert len(names(client)) == 1
    assert names(client) == []


def test_a_container_that_is_killed_from_outside_is_an_end(client: Any) -> None:
    command = Command(
        argv=(sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"), mounts=interpreter_mounts()
    )
    with DockerSandbox().start(command, Limits()) as running:
        client.api.kill(names(client)[0])
        assert running.wait(30).signal == 9
    assert names(client) == []


def test_a_long_temporary_folder_is_no_obstacle(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with DockerSandbox().start(Command(argv=("/bin/true",)), Limits()) as running:
        assert running.wait(30).code == 0
    assert list(deep.iterdir()) == []
    assert names(client) == []


def test_what_can_not_be_mounted_is_the_sandbox_error(client: Any, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    inside_a_file = Mount(tmp_path, target=Path("/etc/ld.so.cache/x"))
    with pytest.raises(SandboxError, match="no container could be"):
        DockerSandbox().start(Command(argv=("/bin/true",), mounts=(inside_a_file,)), Limits())
    assert names(client) == []


def test_a_daemon_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(SandboxError, match=r"no Docker daemon answers at unix://.*none\.sock"):
        containers._connect()


def test_a_missing_package_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(SandboxError, match=r"kernel-harness\[docker\]"):
        containers._connect()
