"""The worker's load_inline and load: torch's names and modules, whichever threads ask, and descriptors that stay."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from build_samples import MODULE

from harness.build import BuildService, ExtensionRequest
from harness.build.handout import sealed_copy
from harness.wire.frames import Channel, Closed
from harness.worker import extensions
from harness.worker.extensions import _Asker

MACROS = """#include <Python.h>
#define INIT_(name) PyInit_##name
#define INIT(name) INIT_(name)
#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)
"""


class Grader:
    """The other side: notes every request, and answers with libraries of a service's or with bytes that are none."""

    def __init__(self, channel: Channel, junk: Path) -> None:
        self.requests: list[dict[str, Any]] = []
        self.service: BuildService | None = None
        self._channel, self._junk = channel, junk

    def serve(self) -> None:
        try:
            while True:
                request = self._channel.receive()["request"]
                self.requests.append(request)
                library, key = self._junk, hashlib.sha256(json.dumps(request).encode()).hexdigest()
                if self.service is not None:
                    outcome = self.service.build(ExtensionRequest.model_validate(request), arch=(), device="cpu")
                    assert outcome.library is not None, outcome.log
                    library, key = outcome.library, outcome.key
                fd = sealed_copy(library)
                self._channel.send({"type": "built", "module_name": request["name"], "key": key}, (fd,))
                os.close(fd)
        except Closed:
            return


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[_Asker, Grader]]:
    ours, theirs = socket.socketpair()
    junk = tmp_path / "junk"
    junk.write_bytes(b"no library")
    grader = Grader(Channel(ours), junk)
    serving = threading.Thread(target=grader.serve)
    serving.start()
    yield _Asker(Channel(theirs)), grader
    theirs.close()
    serving.join()
    ours.close()


def ask(asker: _Asker, name: str, text: str, **given: Any) -> Any:
    request = {"cpp_sources": [text], "no_implicit_headers": True}
    return asker.build("load_inline", {"name": name, **given}, request)


def value(number: int) -> str:
    """A module of whatever name it is compiled for."""
    text = MODULE % {"before": "", "value": number, "name": "NAME"}
    text = text.replace("PyInit_NAME", "INIT(TORCH_EXTENSION_NAME)")
    return text.replace('"NAME"', "TEXT(TORCH_EXTENSION_NAME)").replace("#include <Python.h>", MACROS)


def open_copies() -> set[str]:
    """This process's descriptors of sealed copies."""
    links = {}
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            links[fd] = os.readlink(f"/proc/self/fd/{fd}")
    return {fd for fd, link in links.items() if link.startswith("/memfd:extension")}


def test_an_argument_that_came_to_torch_later_is_known(
    pair: tuple[_Asker, Grader], monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.utils import cpp_extension

    def load_inline_of_torch_26(name: str, cpp_sources: Any, functions: Any = None) -> None:
        """Never called: what it takes is looked at."""

    monkeypatch.setattr(cpp_extension, "load_inline", load_inline_of_torch_26)
    monkeypatch.setattr(cpp_extension, "load", cpp_extension.load)
    asker, grader = pair
    extensions.install(asker._channel)
    with pytest.raises(ImportError):  # the grader answers with junk
        cpp_extension.load_inline("later", "int f();", no_implicit_headers=True)
    assert grader.requests[0]["no_implicit_headers"] is True
    with pytest.raises(TypeError, match="no_such_argument"):
        cpp_extension.load_inline("later", "int f();", no_such_argument=True)


def test_a_name_used_again_is_torchs_next_version_of_it(pair: tuple[_Asker, Grader], service: BuildService) -> None:
    asker, grader = pair
    grader.service = service
    first, second = ask(asker, "again", value(1)), ask(asker, "again", value(2))
    assert (first.answer(), second.answer()) == (1, 2)
    assert (first.__name__, second.__name__) == ("again", "again_v1")
    assert ask(asker, "again", value(2), verbose=True) is second
    third = ask(asker, "again", value(2), extra_cflags=["-O1"])
    assert (third.__name__, third.answer()) == ("again_v2", 2)
    # Torch compares with the last one only: what came before it is another version too.
    assert ask(asker, "again", value(1)).__name__ == "again_v3"
    assert ask(asker, "other", value(1)).__name__ == "other"


def test_operators_are_loaded_from_a_descriptor(pair: tuple[_Asker, Grader], service: BuildService) -> None:
    asker, grader = pair
    grader.service = service
    text = 'extern "C" int five() { return 5; }'
    path = ask(asker, "operators", text, is_python_module=False)
    try:
        assert path in torch.ops.loaded_libraries
        assert ctypes.CDLL(path).five() == 5
        assert ask(asker, "operators", text, is_python_module=False) == path
    finally:
        torch.ops.loaded_libraries.discard(path)


def test_threads_get_their_own_answers(pair: tuple[_Asker, Grader], monkeypatch: pytest.MonkeyPatch) -> None:
    asker, grader = pair
    monkeypatch.setattr(asker, "_load", lambda fd, module_name, key, *_: (os.close(fd), module_name)[1])
    names = [f"thread_{number}" for number in range(64)]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda name: ask(asker, name, "int f();"), names)) == names
    assert sorted(request["name"] for request in grader.requests) == sorted(names)


class SlowLoader(ExtensionFileLoader):
    """Gives other threads the time to load the same."""

    def exec_module(self, module: ModuleType) -> None:
        time.sleep(0.1)
        super().exec_module(module)


def test_threads_that_ask_for_the_same_get_the_same(
    pair: tuple[_Asker, Grader], service: BuildService, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker, grader = pair
    grader.service = service
    monkeypatch.setattr(extensions, "ExtensionFileLoader", SlowLoader)
    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(lambda _: ask(asker, "shared", value(7)), range(8)))
    assert len({id(module) for module in modules}) == 1
    assert modules[0].answer() == 7


@pytest.mark.parametrize("is_python_module", [True, False])
def test_a_descriptor_stays_open_where_loading_fails(pair: tuple[_Asker, Grader], is_python_module: bool) -> None:
    asker, _ = pair
    before = open_copies()
    with pytest.raises((ImportError, OSError), match="/proc/self/fd/"):
        ask(asker, "broken", "no library", is_python_module=is_python_module)
    (kept,) = open_copies() - before
    os.close(int(kept))
