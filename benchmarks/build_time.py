"""How long builds take, beside plain torch on the same machine in the same run.

    python benchmarks/build_time.py cold      load_inline of a sample's kernel, empty cache, against plain torch
    python benchmarks/build_time.py cached    from request to loaded library when it is in the cache
    python benchmarks/build_time.py shared    50 processes ask for one build at once
    python benchmarks/build_time.py many      16 different submissions at once, against plain torch one after another
    python benchmarks/build_time.py all

`--arch 9.0` chooses the architecture, `--submission FILE` the sample, `--json PATH` keeps the figures. Headers that
the builder makes once per toolchain (lean and precompiled ones) are made before the clock starts; what the first build
took with them is printed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from harness import sandbox
from harness.build import BuildCache, BuildOutcome, BuildService, ExtensionRequest
from harness.build.toolchain import discover

ROOT = Path(__file__).resolve().parent.parent

# Runs a sample up to its first load_inline and prints the arguments; the sample is ours, and nothing of it is built.
CAPTURE = """
import inspect, json, runpy, sys
import torch.utils.cpp_extension as extension
plain = extension.load_inline
def load_inline(*args, **kwargs):
    given = inspect.signature(plain).bind(*args, **kwargs)
    given.apply_defaults()
    names = ("name", "cpp_sources", "cuda_sources", "functions", "extra_cflags", "extra_cuda_cflags", "extra_ldflags")
    print("REQUEST " + json.dumps({name: given.arguments[name] for name in names}))
    sys.exit(0)
extension.load_inline = load_inline
module = runpy.run_path(sys.argv[1])
"""

PLAIN = """
import json, sys, time
arguments = json.loads(sys.stdin.read())
from torch.utils.cpp_extension import load_inline
started = time.monotonic()
load_inline(**arguments, build_directory=sys.argv[1])
print("SECONDS", time.monotonic() - started)
"""


def arguments_of(submission: Path) -> dict[str, Any]:
    """The arguments of a sample's load_inline."""
    said = subprocess.run([sys.executable, "-c", CAPTURE, str(submission)], capture_output=True, text=True, check=False)
    line = next((line for line in said.stdout.splitlines() if line.startswith("REQUEST ")), None)
    if line is None:
        raise SystemExit(f"{submission} called no load_inline on import:\n{said.stderr}")
    return dict(json.loads(line.removeprefix("REQUEST ")))


def varied(arguments: dict[str, Any], number: int) -> ExtensionRequest:
    """The same extension with another content, so that no cache has it."""
    mark = f"\n// variation {number} {time.time_ns()}\n"
    changed = dict(arguments)
    for key in ("cpp_sources", "cuda_sources"):
        texts = [arguments[key]] if isinstance(arguments[key], str) else list(arguments[key] or [])
        changed[key] = [text + mark for text in texts]
    return ExtensionRequest(kind="load_inline", **{key: value for key, value in changed.items() if value is not None})


def plain_torch(arguments: dict[str, Any], arch: str) -> float:
    """Seconds that plain torch takes for a cold load_inline, without importing torch."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, TORCH_CUDA_ARCH_LIST=arch)
        env.setdefault("CUDA_HOME", "/usr/local/cuda")
        said = subprocess.run(
            [sys.executable, "-c", PLAIN, folder], input=json.dumps(arguments), capture_output=True, text=True, env=env
        )
    lines = [line for line in said.stdout.splitlines() if line.startswith("SECONDS ")]
    if not lines:
        raise SystemExit(f"plain torch could not build it:\n{said.stdout}\n{said.stderr}")
    return float(lines[0].split()[1])


def service(root: Path) -> BuildService:
    return BuildService(sandbox.default(), cache=BuildCache(root))


def build(builder: BuildService, request: ExtensionRequest, arch: str) -> BuildOutcome:
    outcome = builder.build(request, arch=(arch,), device="cuda")
    if not outcome.ok:
        raise SystemExit(f"the build failed: {outcome.failure}\n{outcome.log}")
    return outcome


def cold(root: Path, arguments: dict[str, Any], arch: str, repeats: int) -> dict[str, Any]:
    builder = service(root)
    first = build(builder, varied(arguments, -1), arch).seconds
    ours, theirs = [], []
    for number in range(repeats):
        # Alternating, so that a machine that slows down slows both.
        ours.append(build(builder, varied(arguments, number), arch).seconds)
        theirs.append(plain_torch(arguments, arch))
    result = {"first_s": first, "ours_s": ours, "plain_s": theirs}
    result["ratio"] = statistics.median(ours) / statistics.median(theirs)
    return result


def cached(root: Path, arguments: dict[str, Any], arch: str) -> dict[str, Any]:
    builder = service(root)
    request = varied(arguments, 0)
    build(builder, request, arch)
    import torch  # noqa: F401  (the library needs torch's libraries loaded)

    times = []
    for _ in range(20):
        started = time.monotonic()
        outcome = build(builder, request, arch)
        assert outcome.library is not None
        _load(outcome.library, outcome.module_name)
        times.append(time.monotonic() - started)
    return {"request_to_loaded_s": times, "median_s": statistics.median(times), "first_s": times[0]}


def _load(library: Path, name: str) -> None:
    from importlib.machinery import ExtensionFileLoader
    from importlib.util import module_from_spec, spec_from_file_location

    path = f"/proc/self/fd/{os.open(library, os.O_RDONLY)}"
    loader = ExtensionFileLoader(name, path)
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    loader.exec_module(module_from_spec(spec))


def _ask(work: tuple[str, str, str]) -> bool:
    root, request, arch = work
    outcome = build(service(Path(root)), ExtensionRequest.model_validate_json(request), arch)
    return outcome.cached


def shared(root: Path, arguments: dict[str, Any], arch: str, askers: int = 50) -> dict[str, Any]:
    request = varied(arguments, 0).model_dump_json()
    # Forked, with the toolchain known: fifty interpreters that each import torch would measure that.
    discover()
    started = time.monotonic()
    with multiprocessing.get_context("fork").Pool(askers) as pool:
        answers = pool.map(_ask, [(str(root), request, arch)] * askers, chunksize=1)
    return {"askers": askers, "compiles": answers.count(False), "seconds": time.monotonic() - started}


def many(root: Path, arguments: dict[str, Any], arch: str, count: int, one: float | None) -> dict[str, Any]:
    builder = service(root)
    build(builder, varied(arguments, -1), arch)
    requests = [varied(arguments, number) for number in range(count)]
    started = time.monotonic()
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda request: build(builder, request, arch), requests))
    together = time.monotonic() - started
    one = plain_torch(arguments, arch) if one is None else one
    return {"builds": count, "together_s": together, "plain_one_s": one, "times_plain": count * one / together}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cold", "cached", "shared", "many", "all"))
    parser.add_argument("--arch", default="9.0")
    parser.add_argument("--submission", type=Path, default=ROOT / "submissions" / "s6_v2.py")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--builds", type=int, default=16)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    arguments = arguments_of(chosen.submission)
    figures: dict[str, Any] = {"machine": platform.machine(), "cores": len(os.sched_getaffinity(0))}
    figures["submission"] = chosen.submission.name
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if chosen.what in ("cold", "all"):
            figures["cold"] = cold(root, arguments, chosen.arch, chosen.repeats)
            print("cold load_inline: {first_s:.1f} s with headers to make, then {ours_s}, plain torch {plain_s}: "
                  "ratio {ratio:.2f}".format(**_rounded(figures["cold"])))  # fmt: skip
        if chosen.what in ("cached", "all"):
            figures["cached"] = cached(root, arguments, chosen.arch)
            print(
                "cached, request to loaded library: median {median_s:.4f} s, first {first_s:.4f} s".format(
                    **figures["cached"]
                )
            )
        if chosen.what in ("shared", "all"):
            figures["shared"] = shared(root, arguments, chosen.arch)
            print("{askers} askers at once: {compiles} compile(s), {seconds:.1f} s".format(**figures["shared"]))
        if chosen.what in ("many", "all"):
            plain = figures["cold"]["plain_s"] if "cold" in figures else []
            one = statistics.median(plain) if plain else None
            figures["many"] = many(root, arguments, chosen.arch, chosen.builds, one)
            print("{builds} builds at once: {together_s:.1f} s, {times_plain:.1f} times plain torch one after another "
                  "({plain_one_s:.1f} s each)".format(**figures["many"]))  # fmt: skip
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1) + "\n")


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: [round(one, 1) for one in value] if isinstance(value, list) else value for key, value in values.items()
    }


if __name__ == "__main__":
    main()
