"""torch.utils.cpp_extension.load_inline and load, with the compiling done elsewhere.

The arguments go to the grader, which has the sources built in a sandbox of their own and hands back the finished
library as a descriptor; here it is only loaded. What a submission sees is what torch would have given it: the module,
or a RuntimeError with the compiler's words.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import inspect
import io
import json
import logging
import os
import re
import sys
import threading
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any

from harness.wire.frames import Channel

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_HEADER_SUFFIXES = {".h", ".hpp", ".hh", ".cuh", ".inl", ".inc", ".hxx", ".ipp", ".tcc"}
_HEADERS_MAX = 500
_LATER = {"no_implicit_headers"}
"""Arguments of load_inline that came to torch after 2.6. The builder knows them whichever torch is installed."""


def install(channel: Channel) -> None:
    """Put our load_inline and load where submissions look for torch's."""
    # It warns of a missing CUDA runtime when it is imported, torch 2.6 by print; what the submission prints would begin
    # with that.
    logging.disable(logging.WARNING)
    with contextlib.redirect_stderr(io.StringIO()):
        import torch.utils.cpp_extension as extension

    logging.disable(logging.NOTSET)
    asker = _Asker(channel)
    plain_inline, plain_load = extension.load_inline, extension.load
    known = inspect.signature(plain_inline).parameters.keys()

    def load_inline(*args: Any, **kwargs: Any) -> Any:
        later = {name: kwargs.pop(name) for name in _LATER - known if name in kwargs}
        given = _bind(plain_inline, args, kwargs) | later
        if given.get("sycl_sources"):
            raise RuntimeError("SYCL sources can't be built here")
        request = {
            "cpp_sources": _strings(given.get("cpp_sources")),
            "cuda_sources": _strings(given.get("cuda_sources")),
            "functions": _functions(given.get("functions")),
            "with_pytorch_error_handling": given.get("with_pytorch_error_handling", True),
            "no_implicit_headers": given.get("no_implicit_headers", False),
        }
        return asker.build("load_inline", given, request)

    def load(*args: Any, **kwargs: Any) -> Any:
        given = _bind(plain_load, args, kwargs)
        request, include_paths = _collect(_strings(given.get("sources")), _strings(given.get("extra_include_paths")))
        return asker.build("load", {**given, "extra_include_paths": include_paths}, request)

    load_inline.__doc__, load.__doc__ = plain_inline.__doc__, plain_load.__doc__
    extension.load_inline, extension.load = load_inline, load


class _Asker:
    """Sends requests and loads what comes back, for any number of threads."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._asking = threading.Lock()
        # Reentrant: what a library runs when it is loaded may ask for another one.
        self._loading = threading.RLock()
        self._versions: dict[str, tuple[int, str]] = {}
        self._modules: dict[tuple[str, str], Any] = {}

    def build(self, kind: str, given: dict[str, Any], request: dict[str, Any]) -> Any:
        name = str(given["name"])
        request |= {
            "kind": kind,
            "extra_cflags": _strings(given.get("extra_cflags")),
            "extra_cuda_cflags": _strings(given.get("extra_cuda_cflags")),
            "extra_ldflags": _strings(given.get("extra_ldflags")),
            "extra_include_paths": _strings(given.get("extra_include_paths")),
            "with_cuda": given.get("with_cuda"),
            "is_python_module": given.get("is_python_module", True),
        }
        if arch_list := os.environ.get("TORCH_CUDA_ARCH_LIST"):
            request["cuda_arch_list"] = arch_list
        # The answer to a request is the next message: one thread at a time asks, and waits for its own.
        with self._asking:
            request |= {"name": self._versioned(name, request), "verbose": bool(given.get("verbose", False))}
            self._channel.send({"type": "build", "request": request})
            answer = self._channel.receive(take_fds=True)
            descriptors = self._channel.take_descriptors()
        if answer["type"] != "built":
            raise RuntimeError(f"Error building extension '{request['name']}': {answer.get('message', '')}")
        with self._loading:
            return self._load(
                descriptors[0], answer["module_name"], answer["key"], bool(request["is_python_module"]), given
            )

    def _versioned(self, name: str, request: dict[str, Any]) -> str:
        """As torch: a name used again with other contents becomes name_v1, name_v2."""
        content = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        version, before = self._versions.get(name, (0, content))
        if content != before:
            version += 1
        self._versions[name] = (version, content)
        return f"{name}_v{version}" if version else name

    def _load(self, fd: int, module_name: str, key: str, is_python_module: bool, given: dict[str, Any]) -> Any:
        if (module_name, key) in self._modules:
            os.close(fd)
            return self._modules[module_name, key]
        # The descriptor stays open, also where loading fails: it is the library's only name in here, the loader may
        # know the library by it from then on, and it must not come to mean another one.
        path = f"/proc/self/fd/{fd}"
        if not is_python_module:
            if given.get("is_standalone"):
                raise RuntimeError("standalone executables can't be built here")
            _load_operators(path)
            module: Any = path
        else:
            loader = ExtensionFileLoader(module_name, path)
            spec = importlib.util.spec_from_file_location(module_name, path, loader=loader)
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            sys.modules.setdefault(module_name, module)
        self._modules[module_name, key] = module
        return module


def _load_operators(path: str) -> None:
    """torch.ops.load_library, which itself would look for the file that the descriptor's link names: there is none."""
    import torch
    from torch._ops import dl_open_guard

    with dl_open_guard():
        try:
            ctypes.CDLL(path)
        except OSError as error:
            raise OSError(f"Could not load this library: {path}: {error}") from error
    torch.ops.loaded_libraries.add(path)


def _bind(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def _strings(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str | os.PathLike):
        return [os.fspath(value)]
    return [os.fspath(item) for item in value]


def _functions(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if isinstance(value, str):
        value = [value]
    if isinstance(value, dict):
        return {str(name): str(text) for name, text in value.items()}
    return {str(name): str(name) for name in value}


def _collect(sources: list[str], include_paths: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Source files and the headers beside them, named relative to the folder that holds them all."""
    files = [Path(source).resolve() for source in sources]
    own_paths: list[Path] = []
    foreign_paths: list[Path] = []
    for path in include_paths:
        folder = Path(path).resolve()
        # The toolkit's and torch's own folders are named, not sent.
        (foreign_paths if str(folder).startswith(("/usr", sys.prefix)) else own_paths).append(folder)
    headers = sorted(
        {
            header
            for folder in {*(file.parent for file in files), *own_paths}
            for header in (folder.rglob("*") if folder in own_paths else folder.glob("*"))
            if header.suffix in _HEADER_SUFFIXES and header.is_file()
        }
        | set(_included(files))
    )[:_HEADERS_MAX]
    root = Path(
        os.path.commonpath([str(file.parent) for file in [*files, *headers]] + [str(path) for path in own_paths])
    )

    def packed(file: Path) -> dict[str, str]:
        return {"name": file.relative_to(root).as_posix(), "text": file.read_text(encoding="utf-8")}

    request = {"sources": [packed(file) for file in files], "headers": [packed(file) for file in headers]}
    relative = [path.relative_to(root).as_posix() for path in own_paths if path != root]
    return request, [*relative, *map(str, foreign_paths)]


def _included(files: list[Path]) -> list[Path]:
    """Files that are included by a quoted name, whatever their suffix, and what those include."""
    found: list[Path] = []
    waiting = list(files)
    while waiting and len(found) < _HEADERS_MAX:
        file = waiting.pop()
        for name in _INCLUDE.findall(file.read_text(encoding="utf-8", errors="replace")):
            header = (file.parent / name).resolve()
            if header.is_file() and header not in found and header not in files:
                found.append(header)
                waiting.append(header)
    return found
