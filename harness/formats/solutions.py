"""Solutions of flashinfer-bench and SOL-ExecBench: a JSON document with sources, an entry and how it is called.

    {"name": ..., "definition": ..., "spec": {"language": "triton", "entry_point": "main.py::run",
     "destination_passing_style": true, ...}, "sources": [{"path": "main.py", "content": "..."}]}

A document comes from a stranger: it is read, limited and checked, and nothing of it runs here. Its Python files travel
as they are. C++ and CUDA go through torch.utils.cpp_extension.load in the worker, as any submission's do.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.formats.files import place_of
from harness.load.program import Calling, Program
from harness.load.pysource import top_level_names
from harness.load.submission import SubmissionError, parse_submission

_PYTHON = frozenset({"python", "triton", "pytorch", "tlx", "cute_dsl", "cutile", "cudnn_frontend"})
_COMPILED = frozenset({"cuda", "cpp", "cuda_cpp", "cutlass", "cudnn", "cublas"})
_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx", ".c")
_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
_ENTRY = "solution_entry.py"

Texts = Annotated[list[str], Field(max_length=256)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Source(_Part):
    path: str = Field(min_length=1, max_length=200)
    content: str


class _Options(_Part):
    cflags: Texts = []
    cuda_cflags: Texts = []
    ld_flags: Texts = []


class _Spec(_Part):
    language: str | None = None
    languages: Texts = []
    entry_point: str = Field(min_length=1, max_length=400)
    destination_passing_style: bool = True
    binding: str | None = None
    compile_options: _Options | None = None


class _Solution(_Part):
    name: str = Field(min_length=1)
    definition: str = Field(min_length=1)
    spec: _Spec
    sources: Annotated[list[_Source], Field(min_length=1, max_length=64)]


def program_of(text: str, name: str, calling: Calling) -> Program:
    """What is run of a document; `calling` has the names of inputs and outputs. Raises SubmissionError."""
    solution = _read(text, name)
    files = _files(solution, name)
    entry, found, function = solution.spec.entry_point.partition("::")
    if not found or not function.isidentifier() or keyword.iskeyword(function):
        raise _bad(name, f"spec.entry_point is {solution.spec.entry_point!r}; write FILE::FUNCTION")
    if entry not in files:
        raise _bad(name, f"spec.entry_point names {entry!r}, which is none of its sources: {', '.join(files)}")
    style = "destination" if solution.spec.destination_passing_style else "function"
    called = Calling(function, style, calling.inputs, calling.outputs)  # type: ignore[arg-type]
    spec = solution.spec
    languages = {each.lower() for each in [*spec.languages, *([spec.language] if spec.language else [])]}
    if not languages or not (languages <= _PYTHON or languages <= _COMPILED):
        raise _bad(
            name,
            f"spec.language is {', '.join(sorted(languages)) or 'missing'}; there are Python's "
            f"({', '.join(sorted(_PYTHON))}) and C++'s ({', '.join(sorted(_COMPILED))})",
        )
    if languages <= _PYTHON:
        source = files.pop(entry)
        _check_entry(source, f"{name}: {entry}", function)
        return Program(source, entry, called, files)
    if spec.binding not in (None, "torch"):
        raise _bad(name, f"spec.binding is {spec.binding!r}; bind with torch (PYBIND11_MODULE)")
    if not entry.endswith(_SUFFIXES):
        raise _bad(name, f"spec.entry_point names {entry!r}, which is no C++ or CUDA file")
    return Program(_loader(function, list(files), spec.compile_options or _Options()), _ENTRY, called, files)


def style_of(tree: ast.Module, calling: Calling) -> Calling:
    """How a plain Python file wants to be called: with as many parameters as there are inputs and outputs together, it
    is in destination-passing style."""
    for node in reversed(tree.body):
        if isinstance(node, ast.FunctionDef) and node.name == calling.entry:
            count = len(node.args.posonlyargs) + len(node.args.args)
            wants = count == len(calling.inputs) + len(calling.outputs) and node.args.vararg is None
            style = "destination" if wants else "function"
            return Calling(calling.entry, style, calling.inputs, calling.outputs)  # type: ignore[arg-type]
    return Calling(calling.entry, "function", calling.inputs, calling.outputs)


def _read(text: str, name: str) -> _Solution:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise SubmissionError(
            "submission.solution", f"{name}{line} is no JSON that can be read ({str(error)[:200]}); correct it.", {}
        ) from None
    try:
        return _Solution.model_validate(document)
    except (ValidationError, RecursionError) as error:
        if not isinstance(error, ValidationError):
            raise _bad(name, "it is nested too deeply") from None
        first = error.errors(include_url=False)[0]
        key = place_of(first["loc"]) or "the document"
        message = str(first["msg"]).removeprefix("Value error, ")
        raise _bad(name, f"{key}: {message[:1].lower()}{message[1:]}") from None


def _files(solution: _Solution, name: str) -> dict[str, str]:
    files: dict[str, str] = {}
    for source in solution.sources:
        parts = PurePosixPath(source.path).parts
        if not _PATH.fullmatch(source.path) or ".." in parts:
            raise _bad(name, f"the source path {source.path[:80]!r} is no plain relative path")
        if source.path in files or source.path == _ENTRY:
            raise _bad(name, f"the source path {source.path!r} is there twice, or is kept for the grader")
        files[source.path] = source.content
    folders = {"/".join(parts[:end]) for parts in (path.split("/") for path in files) for end in range(1, len(parts))}
    if clash := folders & set(files):
        raise _bad(name, f"the source path {sorted(clash)[0]!r} is both a file and a folder")
    for path, content in files.items():
        try:
            content.encode()
        except UnicodeEncodeError:
            raise _bad(name, f"{path} holds half a surrogate pair, which is no text") from None
    return files


def _check_entry(source: str, name: str, function: str) -> None:
    names = top_level_names(parse_submission(source, name))
    if function not in names and "*" not in names:
        raise SubmissionError(
            "submission.no_entry", f"{name} defines no {function}, which spec.entry_point names.", {"entry": function}
        )


def _loader(function: str, paths: Sequence[str], options: _Options) -> str:
    """A text of ours that has the sources built and takes the function out of what comes back."""
    sources = [path for path in paths if path.endswith(_SUFFIXES)]
    return (
        '"""Has the sources of the solution built."""\n'
        "from pathlib import Path\n"
        "from torch.utils.cpp_extension import load\n"
        "_here = Path(__file__).parent\n"
        f"_module = load(name='solution', sources=[str(_here / each) for each in {sources!r}],\n"
        f"    extra_cflags={options.cflags!r}, extra_cuda_cflags={options.cuda_cflags!r},\n"
        f"    extra_ldflags={options.ld_flags!r}, extra_include_paths=[str(_here)])\n"
        f"{function} = _module.{function}\n"
    )


def _bad(name: str, what: str) -> SubmissionError:
    return SubmissionError("submission.solution", f"{name}: {what}; correct the document.", {})
