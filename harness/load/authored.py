"""An author's code in the grader's own process: one execution of a text, with the modules that lie beside it.

A problem's author is trusted and may still make mistakes: whatever the author's code raises becomes a ``ProblemError``
that names the line in the author's file. Modules beside it are found by the author's code alone: two problems that both
have a utils.py don't see each other's.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import itertools
import linecache
import sys
import traceback
import types
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from harness.load.spec import ProblemError

_serial = itertools.count()


class Authored:
    """One execution. Imports whatever the author imports: torch."""

    def __init__(self, source: str, where: str, files: Mapping[str, str] | None = None) -> None:
        """`where`: how messages name the text; `files`: texts beside it by name, of which `NAME.py` can be imported."""
        self._where = where
        self._files = dict(files or {})
        self._modules: dict[str, types.ModuleType] = {}
        self._places: dict[str, str] = {}
        self._name = f"_reference_{next(_serial)}"
        # Weakly: sys.modules keeps the modules, which must not keep what takes them out of there.
        self._builtins = {**vars(builtins), "__import__": functools.partial(_import, weakref.ref(self))}
        weakref.finalize(self, _forget, self._name)
        with self.blaming(f"{where.rpartition('/')[2]} itself"):
            self.namespace = self._run(self._name, source, where).__dict__

    @contextlib.contextmanager
    def blaming(self, doing: str) -> Iterator[None]:
        """Within it, whatever the author's code raises becomes a ProblemError that names the line in the author's file;
        ``doing`` says what ran, e.g. ``"Model.forward"``. The original is the ``__cause__``."""
        try:
            yield
        except (KeyboardInterrupt, GeneratorExit, ProblemError):
            raise
        except BaseException as error:  # SystemExit too: a reference that exits is a broken reference
            frames = traceback.extract_tb(error.__traceback__)
            lines = [(self._places[frame.filename], frame.lineno) for frame in frames if frame.filename in self._places]
            file, line = lines[-1] if lines else (self._where, None)
            place = f", line {line}" if line is not None else ""
            what = " ".join(str(error).split())[:500] or "no message"
            raise ProblemError(
                f"{file}{place}: {doing} raised {type(error).__name__}: {what}; correct the reference."
            ) from error

    def _run(self, name: str, source: str, where: str) -> types.ModuleType:
        file = f"<{name} {where}>"
        self._places[file] = where
        module = types.ModuleType(name)
        module.__file__ = file
        if self._files:
            module.__dict__["__builtins__"] = self._builtins
        # Dataclasses and torch.jit look their module up by name; tracebacks and inspect look the text up by file name.
        sys.modules[name] = module
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)
        return module

    def module(self, name: str) -> types.ModuleType | None:
        """The module beside the text that goes by that name, run when it is first asked for."""
        if f"{name}.py" not in self._files:
            return None
        if name not in self._modules:
            source = self._files[f"{name}.py"]
            folder = self._where.rpartition("/")[0]
            self._modules[name] = self._run(f"{self._name}.{name}", source, f"{folder}/{name}.py")
        return self._modules[name]


def _import(
    owner: weakref.ref[Authored],
    name: str,
    globals: Mapping[str, object] | None = None,  # the names that `import` uses
    locals: Mapping[str, object] | None = None,
    fromlist: Any = (),
    level: int = 0,
) -> types.ModuleType:
    """What `import` calls in the author's code."""
    authored = owner()
    module = authored.module(name) if authored is not None and not level else None
    return builtins.__import__(name, globals, locals, fromlist, level) if module is None else module


def _forget(name: str) -> None:
    for module in [each for each in list(sys.modules) if each == name or each.startswith(f"{name}.")]:
        file = sys.modules.pop(module).__file__
        linecache.cache.pop(str(file), None)
