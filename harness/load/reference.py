"""The right answer: what a format says of it (`Reference`, `ReferenceModule`), and how KernelBench does.

reference.py is first read as text; a fresh module of it then runs on the trusted side.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.load.authored import Authored
from harness.load.program import Calling, Program
from harness.load.pysource import SourceSyntaxError, parse_source, top_level_names
from harness.load.spec import ProblemError

REQUIRED_NAMES = ("Model", "get_inputs", "get_init_inputs")


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

    def module(self, args: Mapping[str, object]) -> ReferenceModule:
        """A fresh execution."""
        return KernelBenchModule(self, args)

    def program(self) -> Program:
        """The text itself; what a model is made with comes from here."""
        return Program(self.source, "reference.py", Calling("Model"))

    def content(self) -> object:
        """The text."""
        return self.source


class ReferenceModule:
    """One execution of a reference, with one workload's arguments. Each format of problems has one of its own."""

    def __init__(self, authored: Authored, where: str) -> None:
        self._authored = authored
        self._where = where

    @property
    def Model(self) -> Callable[..., Any]:  # the name that KernelBench gives it
        """What makes the model, a ``torch.nn.Module`` or anything that can be called."""
        raise NotImplementedError

    def get_inputs(self) -> list[Any]:
        """The positional arguments of one call, fresh, made under the caller's default device and generator."""
        raise NotImplementedError

    def get_init_inputs(self) -> list[Any]:
        """The positional arguments of ``Model`` and of what a submission has in its place."""
        return []

    def destinations(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """Name, dtype and shape of what a submission in destination-passing style writes to."""
        return []

    def judge(self, inputs: list[Any], output: Any, expected: Any) -> str | None:
        """What the problem's own check says of an output, beside what was expected: None where it accepts it. Only
        where ``has_judge``."""
        raise NotImplementedError

    has_judge = False
    """Whether the author brings a check that decides, instead of a tolerance."""

    def blaming(self, doing: str) -> contextlib.AbstractContextManager[None]:
        """As in ``Authored``."""
        return self._authored.blaming(doing)


class Reference(Protocol):
    """The right answer as text: what is known of it without running it."""

    @property
    def source(self) -> str:
        """The text that people are shown."""

    def default_sizes(self) -> dict[str, object]:
        """Sizes that hold where a workload sets no other. Raises ProblemError."""

    def check_args(self, args: Mapping[str, object], workload: str) -> None:
        """Raises ProblemError for arguments that can't be used."""

    def module(self, args: Mapping[str, object]) -> ReferenceModule:
        """Run it, for one workload. Raises ProblemError for whatever the author's code raises."""

    def program(self) -> Program:
        """What a worker imports to have it timed."""

    def content(self) -> object:
        """All that can change a grading, as JSON has it."""


class KernelBenchModule(ReferenceModule):
    """Model, get_inputs and get_init_inputs, with keywords from the workload."""

    def __init__(self, text: ReferenceText, args: Mapping[str, object]) -> None:
        super().__init__(Authored(text.source, text.where), text.where)
        self._args = args
        self._takes: dict[str, tuple[Any, bool, frozenset[str]]] = {}
        self._namespace = self._authored.namespace
        for required in REQUIRED_NAMES:
            if not callable(self._namespace.get(required)):
                raise ProblemError(f"{text.where} leaves {required} undefined or not callable after it ran; define it.")

    @property
    def Model(self) -> Callable[..., Any]:
        """The author's class, a ``torch.nn.Module``."""
        model: Callable[..., Any] = self._namespace["Model"]
        return model

    def get_inputs(self) -> list[Any]:
        """What the author's function returns."""
        return self._call_for_list("get_inputs")

    def get_init_inputs(self) -> list[Any]:
        """What the author's function returns."""
        return self._call_for_list("get_init_inputs")

    def _call_for_list(self, name: str) -> list[Any]:
        with self.blaming(name):
            value = self._namespace[name](**self._keywords(name))
        if not isinstance(value, list | tuple):
            raise ProblemError(
                f"{self._where}: {name} returned {type(value).__name__}; it must return a list of arguments."
            )
        return list(value)

    def _keywords(self, name: str) -> dict[str, object]:
        function = self._namespace[name]
        if self._takes.get(name, (None,))[0] is not function:
            # Looked at once: inputs are made hundreds of times in a grading.
            self._takes[name] = function, *_takes(function)
        _, takes_any, taken = self._takes[name]
        # Copied, so that an author who appends to a list argument does not change the workload.
        return {name: copy.deepcopy(value) for name, value in self._args.items() if takes_any or name in taken}


def _takes(function: Callable[..., object]) -> tuple[bool, frozenset[str]]:
    """Whether a function takes any keyword, and which by name."""
    parameters = inspect.signature(function).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    return takes_any, frozenset(parameter.name for parameter in parameters if parameter.kind in _KEYWORD_KINDS)


_KEYWORD_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


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
