"""reference.py: what its text says before it runs, and a fresh module of it that runs on the trusted side.

A problem's author is trusted and may still make mistakes: whatever the author's code raises becomes a ``ProblemError``
that names the line in the author's file.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import itertools
import linecache
import sys
import traceback
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.pysource import SourceSyntaxError, parse_source, top_level_names
from harness.spec import ProblemError

REQUIRED_NAMES = ("Model", "get_inputs", "get_init_inputs")
_serial = itertools.count()


@dataclass(frozen=True)
class Signature:
    """The keywords of one of the author's two functions, as its text shows them."""

    keywords: frozenset[str]
    takes_any: bool
    """It has ``**kwargs``, or its text does not show a plain ``def``: nothing can be said before it runs."""
    defaults: Mapping[str, object]
    """The defaults that are literals or module-level literals; others are left out."""
    required: frozenset[str]
    """Parameters without a default."""


@dataclass(frozen=True)
class ReferenceText:
    """What is known about reference.py without running it."""

    source: str
    where: str
    """How messages name the file."""
    functions: Mapping[str, Signature] = field(default_factory=dict)

    @classmethod
    def read(cls, source: str, where: str) -> ReferenceText:
        """Raises ProblemError for a syntax error or a required name that is nowhere bound at the top level."""
        try:
            tree = parse_source(source)
        except SourceSyntaxError as error:
            raise ProblemError(f"{where}, line {error.line}: {error.message}; correct the syntax.") from None
        names = top_level_names(tree)
        missing = [name for name in REQUIRED_NAMES if name not in names]
        if missing and "*" not in names:
            raise ProblemError(
                f"{where} does not define {' and '.join(missing)}; "
                "a reference has a class Model and the functions get_inputs and get_init_inputs."
            )
        constants = _constants(tree)
        functions = {name: _signature(tree, name, constants) for name in ("get_inputs", "get_init_inputs")}
        return cls(source=source, where=where, functions=functions)

    def default_sizes(self) -> dict[str, object]:
        """The keyword defaults of both functions. Raises ProblemError where they disagree about one name."""
        sizes: dict[str, object] = {}
        for signature in self.functions.values():
            for name, value in signature.defaults.items():
                if name in sizes and sizes[name] != value:
                    raise ProblemError(
                        f"{self.where}: get_inputs and get_init_inputs have different defaults for {name!r} "
                        f"({sizes[name]!r} and {value!r}); give one name one default."
                    )
                sizes[name] = value
        return sizes

    def check_args(self, args: Mapping[str, object], workload: str) -> None:
        """Raises ProblemError for an argument that neither function takes, or one without default that is not given."""
        for name in args:
            if not any(name in signature.keywords or signature.takes_any for signature in self.functions.values()):
                known = sorted(frozenset().union(*(signature.keywords for signature in self.functions.values())))
                raise ProblemError(
                    f"The workload {workload!r} sets {name!r}, but neither get_inputs nor get_init_inputs in "
                    f"{self.where} takes it; the keywords there are: {', '.join(known) or 'none'}."
                )
        for function, signature in self.functions.items():
            lacking = sorted(signature.required - args.keys())
            if lacking:
                raise ProblemError(
                    f"{self.where}: {function} needs {', '.join(lacking)}, which the workload {workload!r} does not "
                    "set; give each parameter a default."
                )


class ReferenceModule:
    """One execution of reference.py, with one workload's arguments. Imports whatever the author imports: torch."""

    def __init__(self, text: ReferenceText, args: Mapping[str, object]) -> None:
        self._text = text
        self._args = args
        name = f"_reference_{next(_serial)}"
        self._file = f"<{name} {text.where}>"
        module = types.ModuleType(name)
        module.__file__ = self._file
        # Dataclasses and torch.jit look their module up by name; tracebacks and inspect look the text up by file name.
        sys.modules[name] = module
        linecache.cache[self._file] = (len(text.source), None, text.source.splitlines(keepends=True), self._file)
        weakref.finalize(self, _forget, name, self._file)
        self._namespace = module.__dict__
        with self.blaming("reference.py itself"):
            exec(compile(text.source, self._file, "exec", dont_inherit=True), self._namespace)
        for required in REQUIRED_NAMES:
            if not callable(self._namespace.get(required)):
                raise ProblemError(f"{text.where} leaves {required} undefined or not callable after it ran; define it.")

    @property
    def Model(self) -> type[Any]:  # the name that KernelBench gives it
        """The author's class, a ``torch.nn.Module``."""
        model: type[Any] = self._namespace["Model"]
        return model

    def get_inputs(self) -> list[Any]:
        """The positional arguments of one ``forward``, fresh, made under the caller's default device and generator."""
        return self._call_for_list("get_inputs")

    def get_init_inputs(self) -> list[Any]:
        """The positional arguments of ``Model`` and ``ModelNew``."""
        return self._call_for_list("get_init_inputs")

    def _call_for_list(self, name: str) -> list[Any]:
        with self.blaming(name):
            value = self._namespace[name](**self._keywords(self._namespace[name]))
        if not isinstance(value, list | tuple):
            raise ProblemError(
                f"{self._text.where}: {name} returned {type(value).__name__}; it must return a list of arguments."
            )
        return list(value)

    def _keywords(self, function: Callable[..., object]) -> dict[str, object]:
        parameters = inspect.signature(function).parameters.values()
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        taken = {parameter.name for parameter in parameters if parameter.kind in _KEYWORD_KINDS}
        # Copied, so that an author who appends to a list argument does not change the workload.
        return {name: copy.deepcopy(value) for name, value in self._args.items() if takes_any or name in taken}

    @contextlib.contextmanager
    def blaming(self, doing: str) -> Iterator[None]:
        """Within it, whatever the author's code raises becomes a ProblemError that names the line in reference.py;
        ``doing`` says what ran, e.g. ``"Model.forward"``. The original is the ``__cause__``."""
        try:
            yield
        except (KeyboardInterrupt, GeneratorExit, ProblemError):
            raise
        except BaseException as error:  # SystemExit too: a reference that exits is a broken reference
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == self._file]
            place = f", line {lines[-1]}" if lines else ""
            what = " ".join(str(error).split())[:500] or "no message"
            raise ProblemError(
                f"{self._text.where}{place}: {doing} raised {type(error).__name__}: {what}; correct the reference."
            ) from error


_KEYWORD_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _forget(name: str, file: str) -> None:
    sys.modules.pop(name, None)
    linecache.cache.pop(file, None)


def _constants(tree: ast.Module) -> dict[str, object]:
    """Module-level names that are set to a literal, the last setting counting."""
    constants: dict[str, object] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            targets = [target.id for target in statement.targets if isinstance(target, ast.Name)]
            found, value = _literal(statement.value, constants)
            for name in targets:
                constants.pop(name, None)
                if found:
                    constants[name] = value
    return constants


def _literal(node: ast.expr, constants: Mapping[str, object]) -> tuple[bool, object]:
    if isinstance(node, ast.Name):
        return node.id in constants, constants.get(node.id)
    try:
        return True, ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False, None


def _signature(tree: ast.Module, name: str, constants: Mapping[str, object]) -> Signature:
    bindings = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    if not bindings or bindings[-1].decorator_list:
        return Signature(keywords=frozenset(), takes_any=True, defaults={}, required=frozenset())
    spec = bindings[-1].args
    plain = [*spec.posonlyargs, *spec.args]
    pairs: list[tuple[str, ast.expr | None]] = [
        *zip([arg.arg for arg in plain], [None] * (len(plain) - len(spec.defaults)) + list(spec.defaults), strict=True),
        *zip([arg.arg for arg in spec.kwonlyargs], spec.kw_defaults, strict=True),
    ]
    defaults: dict[str, object] = {}
    for keyword, default in pairs:
        if default is not None:
            found, value = _literal(default, constants)
            if found:
                defaults[keyword] = value
    positional_only = {arg.arg for arg in spec.posonlyargs}
    return Signature(
        keywords=frozenset(keyword for keyword, _ in pairs if keyword not in positional_only),
        takes_any=spec.kwarg is not None,
        defaults=defaults,
        required=frozenset(keyword for keyword, default in pairs if default is None),
    )
