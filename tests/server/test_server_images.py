"""The image, and the containers that compose.yaml makes of it: a server, and an agent that grades on a CPU in there.

No base image can be pulled where there is no network, so the Dockerfile's stages are built onto one made of this
machine's files, and what pip would have downloaded is mounted. PostgreSQL and the GPU of compose.yaml are left out.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from local_base import packages, write_base
from server_fakes import ROOT, SOURCE, has_interval, write_problem

from harness.client import Client
from harness.sandbox import DockerSandbox
from harness.sandbox.containers import _connect

pytestmark = pytest.mark.slow
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
NAME = f"harness-test-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def docker() -> Iterator[Any]:
    if why := DockerSandbox.unavailable():
        pytest.skip(why)
    client = _connect()
    yield client.api
    client.close()


@pytest.fixture(scope="module")
def image(docker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The Dockerfile's last stage, onto this machine's files."""
    archive = tmp_path_factory.mktemp("base") / "base.tar"
    write_base(archive)
    base = f"{NAME}-base"
    docker.import_image_from_file(str(archive), repository=base)
    archive.unlink()
    arguments = {"BASE": base, "SYSTEM_PACKAGES": "", "PIP_OPTIONS": "--no-deps --no-build-isolation"}
    said = []
    try:
        for line in docker.build(
            path=str(ROOT), tag=NAME, buildargs=arguments, network_mode="none", rm=True, forcerm=True, decode=True
        ):
            said.append(line.get("stream", ""))
            assert "error" not in line, f"{''.join(said)[-3000:]}{line['error']}"
        yield NAME
    finally:
        for made in (NAME, base):
            with contextlib.suppress(Exception):
                docker.remove_image(made, force=True)
        docker.prune_images({"dangling": True})


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is mounted, for everybody to read."""
    made = tmp_path_factory.mktemp("mounted") / "problems"
    made.mkdir()
    write_problem(made / "scaled")
    return made


class Containers:
    """Containers as compose.yaml has them, on this machine's network."""

    def __init__(self, docker: Any, image: str, problems: Path, port: int) -> None:
        self._docker, self._image, self._port = docker, image, port
        self._binds = [f"{packages()}:/deps:ro", f"{problems}:/srv/problems:ro"]
        self.made: list[str] = []

    def start(self, service: str, command: list[str] | None, environment: dict[str, str]) -> str:
        """One of a service."""
        told = COMPOSE["services"][service]
        options = [one for one in told["security_opt"] if one != "systempaths=unconfined"]
        host = self._docker.create_host_config(
            network_mode="host",
            binds=[*self._binds, f"{NAME}-{service}:/data"],
            cap_drop=told["cap_drop"],
            security_opt=options,
            read_only=told.get("read_only", False),
            tmpfs=dict.fromkeys(told.get("tmpfs", []), ""),
            shm_size=told.get("shm_size"),
        )
        if len(options) < len(told["security_opt"]):
            host["MaskedPaths"], host["ReadonlyPaths"] = [], []  # as the command line takes that option
        check = {"test": ["NONE"]}
        if not told.get("healthcheck", {}).get("disable"):
            found = self._docker.inspect_image(self._image)["Config"]["Healthcheck"]
            check = {"test": found["Test"], "interval": 2 * 10**9, "timeout": found["Timeout"]}
        made: str = self._docker.create_container(
            self._image,
            command,
            host_config=host,
            environment={**environment, "HARNESS_PORT": str(self._port), "PYTHONPATH": "/deps"},
            healthcheck=check,
        )["Id"]
        self.made.append(made)
        self._docker.start(made)
        return made

    def run(self, service: str, *command: str) -> str:
        """What a command in a container of a service prints."""
        made = self.start(service, list(command), {})
        ended = self._docker.wait(made, timeout=120)
        assert ended["StatusCode"] == 0, self.log(made)
        printed: str = self._docker.logs(made, stdout=True, stderr=False).decode()
        return printed.strip()

    def log(self, made: str) -> str:
        found: str = self._docker.logs(made).decode(errors="replace")
        return found

    def state(self, made: str) -> dict[str, Any]:
        found: dict[str, Any] = self._docker.inspect_container(made)["State"]
        return found

    def stop(self, made: str) -> int:
        """As `docker stop` does; its exit code."""
        self._docker.stop(made, timeout=60)
        return int(self.state(made)["ExitCode"])

    def remove(self) -> None:
        for made in self.made:
            self._docker.remove_container(made, force=True)
        for service in ("server", "agent"):
            with contextlib.suppress(Exception):
                self._docker.remove_volume(f"{NAME}-{service}")


def test_a_server_and_an_agent_in_containers_grade_a_submission(docker: Any, image: str, folder: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    containers = Containers(docker, image, folder, port)
    url = f"http://127.0.0.1:{port}"
    try:
        ada = containers.run("server", "keys", "create", "ada")
        machine = containers.run("server", "keys", "create", "machine-1", "--role", "agent")
        server = containers.start("server", None, {})
        _until(lambda: containers.state(server)["Health"]["Status"] == "healthy", lambda: containers.log(server))
        told = COMPOSE["services"]["agent"]["command"]
        command = ["cpu" if word == "cuda:0" else word for word in told]
        assert command != told
        agent = containers.start("agent", command, {"HARNESS_SERVER": url, "HARNESS_KEY": machine})
        with Client(url, ada) as client:
            one = client.submit("scaled", SOURCE)
            done = client.wait(one["id"])
            assert done["verdict"] == "accepted", (done["report"]["reason"], containers.log(agent))
            (device,) = client.devices()
            assert (device["sandbox"], device["kind"]) == ("bubblewrap", "cpu")
            users = [entry["user"] for entry in client.leaderboard("scaled")["entries"]]
            # A machine too busy for an interval puts nobody on a board.
            assert users == (["ada"] if has_interval(done["report"]) else [])
        for made in (server, agent):
            processes = docker.top(made)
            assert {row[processes["Titles"].index("UID")] for row in processes["Processes"]} == {"10001"}, processes
        assert containers.stop(agent) == 0, containers.log(agent)
        assert httpx.get(f"{url}/v1/devices").json()[0]["state"] == "left"
        assert containers.stop(server) == 0, containers.log(server)
    finally:
        containers.remove()


def test_the_image_holds_what_it_should_and_nobodys_secrets(docker: Any, image: str, folder: Path):
    config = docker.inspect_image(image)["Config"]
    assert config["User"] == "10001:10001"
    assert config["Healthcheck"]["Test"][0] == "CMD"
    assert "/data" in config["Volumes"]
    containers = Containers(docker, image, folder, 0)
    program = "import os, json; print(json.dumps(sorted(os.listdir('/srv')) + sorted(os.listdir('/'))))"
    try:
        made = docker.create_container(image, ["-c", program], entrypoint=["python3"], user="10001")["Id"]
        containers.made.append(made)
        docker.start(made)
        assert docker.wait(made, timeout=60)["StatusCode"] == 0, containers.log(made)
        found = json.loads(containers.log(made))
        assert found[0] == "problems"
        assert "build" not in found, "the build stage is not part of the image"
    finally:
        containers.remove()


def test_compose_says_what_an_agent_needs() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"database", "server", "agent"}
    assert services["server"]["environment"]["HARNESS_DATABASE"].startswith("postgresql://")
    assert all(port.startswith("127.0.0.1:") for port in services["server"]["ports"]), "there is no TLS in the server"
    (gpu,) = services["agent"]["deploy"]["resources"]["reservations"]["devices"]
    assert gpu["capabilities"] == ["gpu"]
    assert not any("docker.sock" in mount for service in services.values() for mount in service.get("volumes", ()))


def _until(condition: Any, why: Any, within_s: float = 90.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, why()
        time.sleep(0.2)
