"""What the builder's tests share: the toolchain, and one cache that outlives the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import sandbox
from harness.build import BuildCache, BuildLimits, BuildService
from harness.build.toolchain import MissingCompiler, Toolchain, discover


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    try:
        return discover()
    except MissingCompiler as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def kept_cache(pytestconfig: pytest.Config) -> BuildCache:
    """A cache that the next run finds too: what takes minutes is compiled once a machine."""
    assert pytestconfig.cache is not None
    return BuildCache(Path(pytestconfig.cache.mkdir("build")))


@pytest.fixture(scope="session")
def kept_service(kept_cache: BuildCache, toolchain: Toolchain) -> BuildService:
    return BuildService(sandbox.default(), cache=kept_cache, toolchain=toolchain)


@pytest.fixture
def service(tmp_path: Path, toolchain: Toolchain) -> BuildService:
    """A service with an empty cache and small limits."""
    limits = BuildLimits(step_s=60, memory_bytes=1 << 30, output_bytes=1 << 20, disk_bytes=64 << 20)
    return BuildService(sandbox.default(), cache=BuildCache(tmp_path / "cache"), toolchain=toolchain, limits=limits)
