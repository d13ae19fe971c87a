"""From a request to files, compiler runs and one link, the way torch's `load_inline` and `load` lay them out.

src/   what the submission wrote, the two generated files of load_inline among them; compilers run here
obj/   objects and the finished library
tmp/   temporary files of compilers
lib/   links to libraries of torch's nvidia wheels under the names that -l looks for
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from harness.build import flags as allowed
from harness.build.diagnostics import Diagnostic, Place
from harness.build.hints import GENERATED, Sources
from harness.build.request import ExtensionRequest
from harness.build.toolchain import Toolchain


@dataclass(frozen=True)
class Part:
    """A run of lines of a generated file, and what the solver knows it as."""

    first: int
    lines: int
    label: str
    numbered: bool = True


@dataclass(frozen=True)
class Unit:
    """One translation unit."""

    source: str
    """Path below src/."""
    object: str
    """Path below obj/."""
    cuda: bool
    flags: tuple[str, ...]
    """Everything between the compiler and `-c`."""
    precompile: bool
    """Whether a header that was precompiled without this unit's include paths means the same in it."""


@dataclass(frozen=True)
class Plan:
    """All that a build does."""

    module_name: str
    files: Mapping[str, str]
    """Path below src/ -> text."""
    parts: Mapping[str, tuple[Part, ...]]
    """Generated file -> where its lines come from."""
    units: tuple[Unit, ...]
    link_flags: tuple[str, ...]
    with_cuda: bool
    arch: tuple[str, ...]
    """Architectures compiled for, as nvcc names them (`sm_90`)."""
    warnings: tuple[Diagnostic, ...] = ()
    """What is to be said before any compiler has run."""

    def locate(self, file: str, line: int | None) -> Place:
        """The place that a solver knows for a compiler's file (below src/) and line."""
        if line is not None:
            for part in self.parts.get(file, ()):
                if part.first <= line < part.first + part.lines:
                    return part.label, line - part.first + 1 if part.numbered else None
        return file, line

    def sources(self) -> Sources:
        """The solver's own texts, by the names that diagnostics use."""
        texts: dict[str, str] = {}
        for name, text in self.files.items():
            lines = text.split("\n")
            parts = self.parts.get(name)
            if parts is None:
                texts[name] = text
                continue
            for part in parts:
                if part.numbered:
                    texts[part.label] = "\n".join(lines[part.first - 1 : part.first - 1 + part.lines])
        generated = any(part.label == GENERATED for part in self.parts.get("main.cpp", ()))
        return Sources(texts, with_functions=generated)


def make_plan(request: ExtensionRequest, toolchain: Toolchain, arch: tuple[str, ...]) -> Plan:
    """Raises FlagNotAllowed and MissingCompiler."""
    files, parts, sources = _layout(request)
    is_cuda = {source: PurePosixPath(source).suffix in (".cu", ".cuh") for source in sources}
    with_cuda = any(is_cuda.values()) if request.with_cuda is None else request.with_cuda
    torch_flags = toolchain.flags(with_cuda)
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    roots = allowed.Roots(tuple(toolchain.header_roots()), tuple(toolchain.library_roots()), tuple(folders))
    includes = tuple(
        f"-I{allowed.include_path(p.strip(), 'extra_include_paths', roots)}" for p in request.extra_include_paths
    )
    host = allowed.host_flags(request.extra_cflags, "extra_cflags", roots)
    device = allowed.nvcc_flags(request.extra_cuda_cflags, "extra_cuda_cflags", roots) if with_cuda else []
    gencode, device = choose_architecture(device, arch, request.cuda_arch_list)
    link = allowed.link_flags(request.extra_ldflags, "extra_ldflags", roots)
    late = tuple(word for folder in toolchain.wheel_includes for word in ("-isystem", str(folder))) if with_cuda else ()

    units = []
    for index, source in enumerate(sources):
        if is_cuda[source] and with_cuda:
            assert torch_flags.nvcc is not None
            flags = torch_flags.nvcc.fill(request.name, (*gencode, *device))
            flags += [*late, "--resource-usage"]
        else:
            flags = torch_flags.cxx.fill(request.name, tuple(host)) + list(late)
        stem = re.sub(r"\W", "_", PurePosixPath(source).stem)
        own_folders = any(not flag.startswith("-I/") for flag in includes) or any(f.startswith("-I") for f in host)
        units.append(
            Unit(source, f"{index}_{stem}.o", is_cuda[source] and with_cuda, (*includes, *flags), not own_folders)
        )
    named = allowed.architectures_named([*gencode, *device]) if with_cuda else []
    return Plan(
        module_name=request.name,
        files=files,
        parts=parts,
        units=tuple(units),
        link_flags=(*torch_flags.link.fill(request.name, tuple(link)), *_required(request)),
        with_cuda=with_cuda,
        arch=tuple(dict.fromkeys(named)),
        warnings=(*_foreign_architecture(named, arch), *_foreign_toolkit(toolchain)) if with_cuda else (),
    )


def _required(request: ExtensionRequest) -> tuple[str, ...]:
    """A library that is to be imported must have the function that Python looks for; better said by the linker."""
    if not request.is_python_module:
        return ()
    return (f"-Wl,--require-defined=PyInit_{request.name.rpartition('.')[2]}",)


def _layout(request: ExtensionRequest) -> tuple[dict[str, str], dict[str, tuple[Part, ...]], list[str]]:
    files = {file.name: file.text for file in (*request.sources, *request.headers)}
    if request.kind == "load":
        return files, {}, [file.name for file in request.sources]
    implicit = not request.no_implicit_headers
    bindings = _bindings(request)
    cpp = [("#include <torch/extension.h>", GENERATED, False)] if implicit else []
    cpp += _labelled(request.cpp_sources, "cpp_sources")
    cpp += [(line, GENERATED, False) for line in bindings]
    files["main.cpp"], parts = _join(cpp)
    all_parts = {"main.cpp": parts}
    sources = ["main.cpp"]
    if request.cuda_sources:
        headers = ("#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>") if implicit else ()
        cuda = [(line, GENERATED, False) for line in headers] + _labelled(request.cuda_sources, "cuda_sources")
        files["cuda.cu"], all_parts["cuda.cu"] = _join(cuda)
        sources.append("cuda.cu")
    return files, all_parts, sources


def labelled(request: ExtensionRequest) -> list[tuple[str, str, bool]]:
    """The texts of a request, each with what diagnostics call it, and whether its lines are told."""
    return _labelled(request.cpp_sources, "cpp_sources") + _labelled(request.cuda_sources, "cuda_sources")


def _labelled(texts: tuple[str, ...], label: str) -> list[tuple[str, str, bool]]:
    if len(texts) == 1:
        return [(texts[0], label, True)]
    return [(text, f"{label}[{index}]", True) for index, text in enumerate(texts)]


def _join(pieces: list[tuple[str, str, bool]]) -> tuple[str, tuple[Part, ...]]:
    parts: list[Part] = []
    line = 1
    for text, label, numbered in pieces:
        lines = text.count("\n") + 1
        parts.append(Part(line, lines, label, numbered))
        line += lines
    return "\n".join(text for text, _, _ in pieces), tuple(parts)


def _bindings(request: ExtensionRequest) -> list[str]:
    """The pybind11 module that load_inline writes where `functions` are given."""
    if request.functions is None:
        return []
    lines = ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"]
    for name, doc in request.functions.items():
        callee = f"torch::wrap_pybind_function({name})" if request.with_pytorch_error_handling else name
        lines.append(f'm.def("{name}", {callee}, "{doc}");')
    return [*lines, "}"]


def choose_architecture(
    user: list[str], arch: tuple[str, ...], arch_list: str | None
) -> tuple[tuple[str, ...], list[str]]:
    """The -gencode flags of our own, and the user's flags with architectures that nobody here can run taken out.

    As torch does: a user who names architectures in the flags gets those. Where one of them is the device's own, only
    that one is compiled. `arch` holds capabilities such as "9.0"; `arch_list` is the user's TORCH_CUDA_ARCH_LIST.
    """
    numbers = [one.replace(".", "") for one in arch]
    named = allowed.architectures_named(user)
    if named:
        ours = [name for name in named if _number(name) in map(_number, arch)]
        if not ours:
            return (), user
        bare = sorted({name.split("_")[1] for name in ours}, key=lambda name: (not name.endswith(("a", "f")), name))
        return _gencode(bare[:1]), _without_architectures(user)
    listed = re.findall(r"\d+\.\d+[af]?", arch_list or "")
    special = [name.replace(".", "") for name in listed if name[-1] in "af" and name[:-1] in arch]
    return _gencode(special[:1] or numbers), user


def _foreign_toolkit(toolchain: Toolchain) -> tuple[Diagnostic, ...]:
    if toolchain.foreign_cuda is None:
        return ()
    return (
        Diagnostic(
            file=None,
            line=None,
            column=None,
            severity="warning",
            message=f"compiled by the nvcc of CUDA {toolchain.foreign_cuda} for torch {toolchain.torch_version}, which "
            f"is built for CUDA {toolchain.torch_cuda}",
            hint=f"Torch's headers may not compile, and the extension gets a CUDA runtime of its own: on the grading "
            f"machine, install the CUDA toolkit {toolchain.torch_cuda} or a torch for CUDA {toolchain.foreign_cuda}.",
        ),
    )


def _foreign_architecture(named: list[str], arch: tuple[str, ...]) -> tuple[Diagnostic, ...]:
    if not arch or any(_number(name) in map(_number, arch) for name in named):
        return ()
    return (
        Diagnostic(
            file="extra_cuda_cflags",
            line=None,
            column=None,
            severity="warning",
            message=f"compiled for {', '.join(dict.fromkeys(named))}, but the device is sm_{_number(arch[0])}",
            hint="Leave -arch and -gencode out: the device's own architecture is the default. Code for another "
            "one either "
            "does not run here (no kernel image is available) or is translated at load without this one's "
            "instructions.",
        ),
    )


def _number(architecture: str) -> str:
    """The digits of `sm_90a`, `compute_90` or `9.0a`: forms of one architecture are the same device."""
    return re.sub(r"\D", "", architecture)


def _gencode(numbers: list[str]) -> tuple[str, ...]:
    return tuple(f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers)


def _without_architectures(flags: list[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for flag in flags:
        name = flag.lstrip("-").partition("=")[0]
        if skip:
            skip = False
        elif name in ("arch", "gpu-architecture", "code", "gpu-code", "gencode", "generate-code"):
            skip = "=" not in flag or (
                flag.lstrip("-").startswith(("gencode=", "generate-code=")) and "arch=" not in flag
            )
        else:
            kept.append(flag)
    return kept
