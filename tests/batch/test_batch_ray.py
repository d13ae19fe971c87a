"""A Ray cluster as an executor: real clusters of several nodes on this machine, and what needs none."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_fakes import RIGHT, FakeExecutor, entry, index_of, problem_file, report

from harness.batch.executor import Gone
from harness.batch.inputs import Entry
from harness.batch.job import Options
from harness.batch.ray import shelf
from harness.batch.ray.cluster import NoCluster, _chosen
from harness.batch.ray.executor import RayExecutor
from harness.batch.ray.facts import Facts, differences, facts_of, most_common, own_version, resource, resources
from harness.batch.run import run_batch
from harness.batch.store import RESULTS, Store, read_results
from harness.build.cache import BuildCache
from harness.machine.device import open_device
from harness.report import Verdict

Harness = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).resolve().parents[2]
SCALE = ROOT / "tests" / "attacks" / "corpus" / "problems" / "scale"
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
EXTENSION = """import torch
from torch.utils.cpp_extension import load_inline

# Without torch's headers, which are nearly all of a build's time.
load_inline("b", 'extern "C" long number() { return NUMBER; }', is_python_module=False, no_implicit_headers=True)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x + x
"""


class Nodes:
    """A cluster whose nodes share nothing but this machine: each has a cache and a device lock of its own."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self.folder = folder
        self.cluster: Any = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": 1 << 27},
        )
        self.address: str = self.cluster.address

    def add(self, name: str, *, cpus: int = 0, offers: bool = True, **environment: str) -> Any:
        folders = {"HARNESS_CACHE_DIR": "cache", "HARNESS_LOCK_DIR": "locks"}
        return self.cluster.add_node(
            num_cpus=cpus,
            resources={"grade:cpu": 1} if offers else {},
            object_store_memory=1 << 27,
            env_vars={
                "PYTHONPATH": str(ROOT),
                **{key: str(self.folder / name / part) for key, part in folders.items()},
                **environment,
            },
        )


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    started = Nodes(tmp_path)
    try:
        yield started
    finally:
        for node in [*started.cluster.worker_nodes, started.cluster.head_node]:
            node.kill_all_processes(check_alive=False, allow_graceful=False)


def wait_for(what: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 150
    while not what():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@needs_ray
@pytest.mark.slow
def test_a_batch_outlives_a_node_and_none_of_it_is_graded_twice(nodes: Nodes, tmp_path: Path) -> None:
    """Real gradings. Builds are done on a node that grades nothing, so an artifact that is found has travelled."""
    other = tmp_path / "other"
    shutil.copytree(ROOT / "harness", other / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    version = other / "harness" / "version.py"
    version.write_text(version.read_text().replace("VERSION = ", "VERSION = 'other' or "))
    nodes.add("builder", cpus=1, offers=False)
    graders = [nodes.add("one"), nodes.add("two")]
    nodes.add("stranger", PYTHONPATH=str(other))
    subs = tmp_path / "subs"
    subs.mkdir()
    for number in range(4):
        # New each time: an earlier run of the tests left nothing for them.
        text = EXTENSION.replace("NUMBER", str(time.time_ns())) if number < 2 else EXTENSION.split("\n\n\n")[1]
        (subs / f"s{number}.py").write_text(f"# {number}\nimport torch\n{text}")
    (subs / "wrong.py").write_text(f"import torch\n{EXTENSION.split(chr(10) * 3)[1].replace('x + x', 'x + 1')}")
    run = tmp_path / "run"
    argv = ["batch", "--problems", SCALE, "--submissions", subs, "--out", run, "--check"]
    argv += ["--executor", "ray", "--ray-address", nodes.address]
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *map(str, argv)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "HARNESS_CACHE_DIR": str(tmp_path / "coordinator")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    results = run / RESULTS
    wait_for(lambda: results.exists() and results.read_bytes().count(b"\n") >= 2, process)
    graders[0].kill_all_processes(check_alive=False, allow_graceful=False)
    out, err = process.communicate(timeout=200)
    assert (process.returncode, out) == (0, ""), err
    assert "is left out: harness other (source" in err
    assert "was lost; 1 devices are left" in err
    found = list(read_results(run))
    assert Counter(result.id for result in found) == Counter([*(f"s{n}.py" for n in range(4)), "wrong.py"])
    assert results.read_bytes().count(b"\n") == 5, "none has a second verdict"
    codes = {result.id: result.report.reason.code for result in found}
    assert codes.pop("wrong.py") == "output.values"
    assert set(codes.values()) == {"grade.correct"}
    built = [result.report.build for result in found if result.report.build.extensions]
    assert [build.cached for build in built] == [True, True]
    assert not (tmp_path / "coordinator").exists(), "nothing was built or graded beside the batch itself"


@needs_ray
@pytest.mark.slow
def test_without_its_head_a_batch_ends_with_all_that_is_done(nodes: Nodes, tmp_path: Path) -> None:
    nodes.add("one")
    (named,) = index_of(tmp_path / "p", "softmax").named
    # No submission at all: each is a verdict within moments.
    entries = [entry(named, f"s{number}", f"# {number}\n") for number in range(400)]
    said: list[str] = []

    async def batch() -> None:
        executor = await RayExecutor.connect(nodes.address, "cpu", say=said.append, patience_s=2)
        try:
            assert (executor.kind, executor.grade_slots, executor.builds_disturb) == ("cpu", 1, True)

            def told(_: object, tally: Any) -> None:
                if tally.done == 3:
                    nodes.cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)

            with Store(tmp_path / "run", {}) as store:
                await run_batch(entries, executor, store, Options(), on_result=told)
        finally:
            await executor.close()

    with pytest.raises(Gone, match="nobody listens at"):
        asyncio.run(batch())
    assert any("the head of the cluster has not answered for 2 s; connecting again" in each for each in said)
    verdicts = [result.report.verdict for result in read_results(tmp_path / "run")]
    assert 3 <= len(verdicts) < 400
    assert set(verdicts) == {Verdict.INVALID_SUBMISSION}


def test_nobody_there_is_told_at_once_and_a_missing_ray_with_its_cure(
    tmp_path: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text(RIGHT)
    argv = ["batch", "--problems", problem_file(tmp_path / "p", "softmax"), "--submissions", tmp_path / "a.py"]
    argv += ["--out", tmp_path / "run", "--executor", "ray", "--ray-address", "127.0.0.1:1"]
    if importlib.util.find_spec("ray") is not None:
        code, out, err = harness(*argv)
        assert (code, out) == (2, "")
        assert "nobody listens at 127.0.0.1:1" in err
        code, out, err = harness(*argv[:-1], "ray://127.0.0.1:1")
        assert (code, out) == (2, "")
        assert "run the batch on a machine of the cluster" in err
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    code, out, err = harness(*argv)
    assert (code, out) == (2, "")
    assert "pip install 'kernel-harness[ray]'" in err
    assert not (tmp_path / "run").exists()


def test_when_nobody_is_left_the_batch_ends_and_what_is_done_stays(tmp_path: Path) -> None:
    (named,) = index_of(tmp_path / "p", "softmax").named
    entries: list[Entry] = [entry(named, f"s{number}", f"# {number}\n") for number in range(9)]
    graded: list[str] = []

    async def grade_with(job: Any) -> Any:
        if len(graded) == 4:
            raise Gone("the cluster is gone.")
        graded.append(job.sha256)
        return report(sha256=job.sha256)

    with Store(tmp_path / "run", {}) as store, pytest.raises(Gone, match=r"^the cluster is gone\.$"):
        asyncio.run(run_batch(entries, FakeExecutor(slots=1, grade_with=grade_with), store, Options()))
    assert sorted(each.report.submission.sha256 for each in read_results(tmp_path / "run")) == sorted(graded)


def facts(**other: Any) -> Facts:
    return Facts(**{**vars(facts_of("cpu")), **other})


def test_what_differs_is_named() -> None:
    ours = facts(kind="cuda", device="NVIDIA H200", cuda_driver="580.1")
    assert differences(ours, ours) == ""
    other = differences(ours, facts(kind="cuda", device="NVIDIA H100", cuda_driver="570.2", torch="2.6", harness="0"))
    assert "CUDA driver 570.2 there, 580.1 wanted" in other
    assert "device NVIDIA H100 there, NVIDIA H200 wanted" in other
    assert "torch 2.6 there" in other
    assert f"harness 0 there, {own_version()} wanted" in other


def test_the_majority_decides_but_not_on_the_grader() -> None:
    few, many = facts(torch="2.6"), facts(torch="2.7")
    assert most_common([few, many, many], own_version()) == many
    strangers = [facts(harness="0")] * 5
    assert most_common([few, *strangers], own_version()) == few
    assert most_common(strangers, own_version()) is None


def test_what_a_machine_offers_is_what_is_chosen() -> None:
    cpu = open_device("cpu")
    assert json.loads(resources([cpu])) == {"grade:cpu": 1}
    assert resource("NVIDIA H200 (x/y)", "cuda") == "grade:NVIDIA_H200_x_y"
    alive = [{"Resources": {"CPU": 1.0, "grade:cpu": 1.0}}, {"Resources": {"grade:NVIDIA_H200": 8.0}}]
    assert _chosen(alive[:1], "auto") == "grade:cpu"
    assert _chosen(alive, "NVIDIA_H200") == "grade:NVIDIA_H200"
    for devices, says in (("auto", "more than one kind; .* NVIDIA_H200, cpu"), ("cuda", "does not offer 'cuda'")):
        with pytest.raises(NoCluster, match=says):
            _chosen(alive, devices)
    with pytest.raises(NoCluster, match="none of the 1 nodes offers to grade"):
        _chosen([{"Resources": {"CPU": 1.0}}], "auto")


def test_artifacts_get_from_one_cache_into_another_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "one"))
    library = tmp_path / "library"
    library.write_bytes(b"\x7fELF and so on")
    with (cache := BuildCache()).lock("k1"):
        cache.publish("k1", library, {"name": "a"})
    with cache.lock("k2"):
        cache.publish("k2", None, {"name": "b", "log": "error"})
    taken = shelf.take(["k1", "k2", "k3"])
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "two"))
    shelf.keep(taken)
    shelf.keep(taken)
    found = BuildCache().lookup("k1")
    assert found is not None
    assert found.library is not None
    assert found.library.read_bytes() == library.read_bytes()
    assert found.meta["sha256"] == hashlib.sha256(library.read_bytes()).hexdigest()
    failed = BuildCache().lookup("k2")
    assert failed is not None
    assert failed.library is None
    assert failed.meta["log"] == "error"


def test_the_shelf_drops_what_was_longest_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "_HELD", 100)
    held = shelf.Shelf()
    one, two, three = object(), object(), object()
    held.put(["a", "b"], one, 40)
    held.put(["c"], two, 40)
    assert held.find(["a", "b", "c", "nothing"]) == [one, two]
    held.find(["a", "b"])
    held.put(["d"], three, 40)
    assert held.find(["a", "b", "c", "d"]) == [one, three]
    held.forget(["a"])
    assert held.find(["a"]) == []
    assert held.find(["b"]) == [one]
