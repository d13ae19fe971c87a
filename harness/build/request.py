"""What a worker asks the builder for: the arguments of `torch.utils.cpp_extension.load_inline` and `load`, as data.

The request arrives as JSON from a process that belongs to the submission, so it is a claim: sizes are limited, names
are checked, unknown keys are refused, and nothing in it names a file outside the request itself. The JSON is exactly
the fields below, lists for tuples; only `kind` and `name` are required:

    {"kind": "load_inline", "name": "ext",
     "cpp_sources": ["torch::Tensor f(torch::Tensor x);"], "cuda_sources": ["..."], "functions": {"f": "f"},
     "extra_cflags": ["-O3"], "extra_cuda_cflags": ["--use_fast_math"], "with_cuda": null}

    {"kind": "load", "name": "ext",
     "sources": [{"name": "src/ext.cpp", "text": "..."}, {"name": "src/kernel.cu", "text": "..."}],
     "headers": [{"name": "src/kernel.cuh", "text": "..."}], "extra_include_paths": ["src"]}

Names of files are relative to one folder of the worker's choosing (the common parent of what it collected), with `/`
between parts. `extra_include_paths` holds folders of that same tree (relative), or absolute ones of the toolkit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, field_validator, model_validator

MAX_TEXT_CHARS = 4 << 20
"""Characters of one source text."""
MAX_TOTAL_CHARS = 8 << 20
"""Characters of all texts of a request together."""
MAX_FLAG_CHARS = 64 << 10
"""Characters of all flags and include paths together: they have to fit into one command line."""
GENERATED_FILES = ("main.cpp", "cuda.cu", "sycl.sycl")
"""What torch's load_inline calls the files that it writes."""

_FILE_NAME = re.compile(r"[A-Za-z0-9_+.\-][A-Za-z0-9_+.\- ]*(/[A-Za-z0-9_+.\-][A-Za-z0-9_+.\- ]*)*")


def _one_or_many(value: object) -> object:
    """Torch takes a bare string wherever it takes a list of strings."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value


Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS)]
Texts = Annotated[tuple[Text, ...], Field(max_length=64), BeforeValidator(_one_or_many)]
Flag = Annotated[str, StringConstraints(max_length=8192)]
Flags = Annotated[tuple[Flag, ...], Field(max_length=256), BeforeValidator(_one_or_many)]


def _check_relative(name: str) -> str:
    parts = name.split("/")
    if not _FILE_NAME.fullmatch(name) or any(part in (".", "..") or part.startswith("-") for part in parts):
        raise ValueError(f"{name!r} is not a plain relative file name")
    return name


class SourceFile(BaseModel):
    """One file that travels with a request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(min_length=1, max_length=240)]
    """Relative path with `/` between parts; no `..`, no part that starts with a dash."""
    text: Text

    @field_validator("name")
    @classmethod
    def _relative(cls, name: str) -> str:
        return _check_relative(name)


class ExtensionRequest(BaseModel):
    """One call of `load_inline` or `load`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["load_inline", "load"]
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}$")]
    """Name of the module: its `PyInit_` and `TORCH_EXTENSION_NAME`. Torch's `_v1`, `_v2` for a name used again with
    other contents is for the caller to append."""

    cpp_sources: Texts = ()
    cuda_sources: Texts = ()
    functions: (
        dict[Annotated[str, StringConstraints(max_length=512)], Annotated[str, StringConstraints(max_length=65536)]]
        | None
    ) = None
    """Function to bind -> docstring; None where the sources hold their own PYBIND11_MODULE. A list is taken as torch
    takes it: each name is its own docstring."""

    sources: Annotated[tuple[SourceFile, ...], Field(max_length=64)] = ()
    """For `load`: the files to compile, in order."""
    headers: Annotated[tuple[SourceFile, ...], Field(max_length=512)] = ()
    """Files that sources may include by a relative name or through `extra_include_paths`; both kinds."""

    extra_cflags: Flags = ()
    extra_cuda_cflags: Flags = ()
    extra_ldflags: Flags = ()
    extra_include_paths: Flags = ()

    with_cuda: bool | None = None
    """None: as torch, CUDA when a source is CUDA."""
    is_python_module: bool = True
    with_pytorch_error_handling: bool = True
    no_implicit_headers: bool = False
    cuda_arch_list: Annotated[str, StringConstraints(max_length=256)] | None = None
    """TORCH_CUDA_ARCH_LIST as the submission has set it, if it has. It can choose among the forms of the device's own
    architecture (`9.0a` for `9.0`), not another architecture."""

    verbose: bool = False
    use_pch: bool = False
    """Taken and ignored: the builder has precompiled headers of its own."""
    keep_intermediates: bool = True
    """Taken and ignored: intermediates never leave the builder."""

    @field_validator("functions", mode="before")
    @classmethod
    def _functions_as_torch(cls, value: object) -> object:
        if isinstance(value, str):
            value = [value]
        if isinstance(value, Sequence) and all(isinstance(name, str) for name in value):
            return {name: name for name in value}
        return value

    @model_validator(mode="after")
    def _consistent(self) -> ExtensionRequest:
        if self.kind == "load_inline" and self.sources:
            raise ValueError("load_inline takes cpp_sources and cuda_sources, not sources")
        if self.kind == "load" and (self.cpp_sources or self.cuda_sources or self.functions is not None):
            raise ValueError("load takes sources, not cpp_sources, cuda_sources or functions")
        if self.kind == "load" and not self.sources:
            raise ValueError("load needs at least one source")
        names = [file.name for file in (*self.sources, *self.headers)]
        if len(set(names)) != len(names):
            raise ValueError("two files of the request have the same name")
        folders = {"/".join(parts[:end]) for parts in (n.split("/") for n in names) for end in range(1, len(parts))}
        if folders & set(names):
            raise ValueError("a name of the request is both a file and a folder")
        if self.kind == "load_inline":
            for name in names:
                if name.split("/")[0] in GENERATED_FILES:
                    raise ValueError(f"{name!r} has the name of a file that load_inline writes itself")
        if sum(len(text) for text in self._texts()) > MAX_TOTAL_CHARS:
            raise ValueError(f"sources hold more than {MAX_TOTAL_CHARS} characters together")
        flags = (*self.extra_cflags, *self.extra_cuda_cflags, *self.extra_ldflags, *self.extra_include_paths)
        if sum(len(flag) for flag in flags) > MAX_FLAG_CHARS:
            raise ValueError(f"flags and include paths hold more than {MAX_FLAG_CHARS} characters together")
        for text in _strings(self.model_dump()):
            # A lone surrogate can't be written to a file, and NUL ends an argument early.
            if "\0" in text or not _encodable(text):
                raise ValueError("a text of the request holds NUL or is not valid Unicode")
        return self

    def _texts(self) -> tuple[str, ...]:
        functions = tuple(f"{name} {doc}" for name, doc in (self.functions or {}).items())
        files = tuple(file.text for file in (*self.sources, *self.headers))
        return (*self.cpp_sources, *self.cuda_sources, *files, *functions)

    def canonical(self) -> Mapping[str, Any]:
        """The part of the request that decides what is built, for the cache's key."""
        return self.model_dump(exclude={"verbose", "use_pch", "keep_intermediates"})


def _strings(value: object) -> Iterator[str]:
    """Every text in nested data, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _strings(key)
            yield from _strings(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _strings(inner)


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
