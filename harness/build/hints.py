"""What to do about the mistakes that solvers make most, said beside the compiler's own words."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.build.diagnostics import Diagnostic

GENERATED = "functions"
"""File name of diagnostics in the bindings that load_inline writes itself."""


_NEAR = 2000
"""Characters of a text that are looked at around a place."""


@dataclass(frozen=True)
class Sources:
    """The texts that hints may quote: label as in diagnostics -> text."""

    texts: Mapping[str, str]
    with_functions: bool
    """Whether load_inline writes the bindings."""

    @functools.cached_property
    def _lines(self) -> dict[str, list[str]]:
        return {label: text.split("\n") for label, text in self.texts.items()}

    def line(self, diagnostic: Diagnostic) -> str:
        """The line that a diagnostic points to; empty where there is none."""
        if diagnostic.file is None or diagnostic.line is None:
            return ""
        lines = self._lines.get(diagnostic.file, [])
        return lines[diagnostic.line - 1][:_NEAR] if 0 < diagnostic.line <= len(lines) else ""

    def around(self, diagnostic: Diagnostic, lines: int = 30) -> str:
        """The text from some lines before a diagnostic's to some after it."""
        if diagnostic.file is None or diagnostic.line is None:
            return ""
        start = max(0, diagnostic.line - 1 - lines)
        near = self._lines.get(diagnostic.file, [])[start : diagnostic.line + lines]
        return "\n".join(line[:_NEAR] for line in near)

    def definition(self, name: str) -> tuple[str, str] | None:
        """Where a function is defined and its signature on one line: ("cuda_sources:12", "torch::Tensor f(...)")."""
        pattern = re.compile(
            rf"^[ \t]*((?:[\w:<>,*&]+[ \t\n]+){{1,8}}[*&]*{re.escape(name)}\s*\([^;{{}}]*?\))\s*\{{", re.M
        )
        for label, text in self.texts.items():
            # Only near the name: a pattern that runs over a stranger's whole text can be made to take forever.
            places = itertools.islice(re.finditer(rf"\b{re.escape(name)}\b", text), 40)
            for start in (text.rfind("\n", 0, max(0, place.start() - 200)) + 1 for place in places):
                if match := pattern.search(text[start : start + _NEAR]):
                    line = text.count("\n", 0, start + match.start(1)) + 1
                    return f"{label}:{line}", " ".join(match[1].split())
        return None


Rule = Callable[[Diagnostic, Sources], str | None]


def hint_for(diagnostic: Diagnostic, sources: Sources) -> str | None:
    """The first hint that applies, or None."""
    return next((hint for rule in _RULES if (hint := rule(diagnostic, sources))), None)


def _not_declared(d: Diagnostic, s: Sources) -> str | None:
    match = re.search(r"'(?P<name>\w+)' was not declared in this scope", d.message)
    if not match or d.file != GENERATED:
        return None
    name = match["name"]
    found = s.definition(name)
    if found:
        place, signature = found
        return (
            f"functions binds {name}, which is defined in {place} but not declared in cpp_sources, where the "
            "bindings are "
            f'compiled. Put its declaration there: cpp_sources="{signature};"'
        )
    return (
        f"functions binds {name}, but no such function is declared in cpp_sources. Declare it there "
        f"(torch::Tensor {name}(...);), or take it out of functions."
    )


def _own_module(d: Diagnostic, s: Sources) -> str | None:
    if not re.search(
        r"(?:redefinition of|multiple definition of).*(?:PyInit_|pybind11_init_|pybind11_(?:module_def|exec)_)",
        d.message,
    ):
        return None
    return (
        "functions makes load_inline write a PYBIND11_MODULE, and the sources hold one of their own: take "
        "yours out, or "
        "leave functions out."
    )


def _duplicate_parameter(d: Diagnostic, s: Sources) -> str | None:
    gcc = re.search(r"redefinition of '(?:[^']*\W)(?P<name>\w+)'", d.message)
    if "duplicate parameter name" not in d.message and not (gcc and "(" in s.around(d, 3)):
        return None
    name = gcc["name"] if gcc else _repeated_parameter(d, s)
    which = f"called {name}" if name else "of the same name"
    return f"Two parameters of this function are {which}: rename one of them, and its uses."


def _repeated_parameter(d: Diagnostic, s: Sources) -> str | None:
    line = s.line(d)
    for match in re.finditer(r"\(([^(){};]*)\)", s.around(d)):
        words = [re.findall(r"[A-Za-z_]\w*", part) for part in match[1].split(",")]
        names: list[str] = [found[-1] for found in words if len(found) > 1]
        for name in names:
            if names.count(name) > 1 and re.search(rf"\b{name}\b", line):
                return name
    return None


def _undefined(d: Diagnostic, s: Sources) -> str | None:
    match = re.match(r"undefined reference to '(?P<symbol>.+)'", d.message)
    if not match:
        return None
    symbol = match["symbol"]
    if data := re.search(r"(?:mutable_|const_)?data_ptr<(?P<type>[^>]*)>", symbol):
        better = {"__half": "at::Half", "__nv_bfloat16": "at::BFloat16"}.get(
            data["type"], "a type that torch has tensors of"
        )
        return (
            f"Tensors have no data_ptr<{data['type']}>: ask for {better} and cast, as in "
            f"reinterpret_cast<{data['type']}*>(x.data_ptr<at::Half>())."
        )
    name = symbol.split("(")[0].split("<")[0].split()[-1].split("::")[-1]
    if found := s.definition(name):
        return (
            f"It is declared and called with these parameter types, but {found[0]} defines {found[1]}: make the two "
            'signatures the same (same types, const and references, no static, no extern "C" on one side only).'
        )
    return (
        f"{name} is declared and used, but defined nowhere: define it in cuda_sources or cpp_sources, or link its "
        "library."
    )


def _no_module(d: Diagnostic, s: Sources) -> str | None:
    if not re.search(r"required symbol .*PyInit_", d.message):
        return None
    return (
        "The library has no Python module in it, so importing it would fail: give load_inline functions=[...] with the "
        "names to bind, or write PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) in the sources."
    )


def _unknown_header(d: Diagnostic, s: Sources) -> str | None:
    match = re.search(
        r"^(?P<gcc>\S+): No such file or directory|cannot open source file \"(?P<edg>[^\"]+)\"", d.message
    )
    if not match:
        return None
    header = match["gcc"] or match["edg"]
    if header.startswith(("cutlass/", "cute/")):
        return (
            f"{header} belongs to CUTLASS, which is not installed here: the admin can install nvidia-cutlass or "
            "set CUTLASS_PATH."
        )
    if header.startswith("/"):
        return (
            "Only the headers of the system, the CUDA toolkit and torch can be included here, and files that "
            "come with the request."
        )
    return (
        f"There is no header {header} here. The CUDA toolkit's, torch's and the system's can be included, and "
        "files that "
        "come with the request; check its spelling, or write what you need of it into the source."
    )


def _launch_from_cpp(d: Diagnostic, s: Sources) -> str | None:
    if d.file is None or not d.file.startswith("cpp_sources"):
        return None
    line = s.line(d)
    if "<<<" in line:
        what = "A kernel is launched here with <<<...>>>"
    elif re.search(r"\b__(?:global|device|shared)__\b", line + d.message):
        what = "This is CUDA code"
    elif re.search(r"\b(?:blockIdx|threadIdx|blockDim|gridDim)\b", d.message):
        what = "This is kernel code"
    else:
        return None
    return (
        f"{what}, but cpp_sources is compiled by the C++ compiler: move the kernel and the function that "
        "launches it to "
        "cuda_sources, and leave only that function's declaration in cpp_sources."
    )


def _shared_memory(d: Diagnostic, s: Sources) -> str | None:
    if too_much := re.search(r"uses too much shared data \((?P<used>\w+) bytes, (?P<max>\w+) max\)", d.message):
        used, most = int(too_much["used"], 0), int(too_much["max"], 0)
        return (
            f"The kernel declares {used} bytes of __shared__ arrays; {most} ({most // 1024} KB) can be static. Make it "
            "extern __shared__, pass the size at the launch, and raise the limit first: cudaFuncSetAttribute(kernel, "
            "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)."
        )
    if "__shared__" not in s.line(d):
        return None
    if re.search(
        r"incompatible with|already been declared|redeclar|has already been defined|storage class|linkage", d.message
    ):
        return (
            "Static and dynamic shared memory are mixed, or extern __shared__ is declared twice with two "
            "types: all extern "
            "__shared__ arrays of a file are the same memory. Declare it once, as extern __shared__ unsigned "
            "char smem[], "
            "and cast parts of it."
        )
    if re.search(r"must have a constant value|not a constant|constant expression", d.message):
        return (
            "The size of a static __shared__ array has to be known to the compiler: use a constexpr or a template "
            "parameter, or extern __shared__ with the size given at the launch."
        )
    if re.search(r"initializer|initiali[sz]ed", d.message):
        return (
            "__shared__ arrays can't have an initialiser: fill the array with the threads of the block, then "
            "__syncthreads()."
        )
    return None


def _architecture(d: Diagnostic, s: Sources) -> str | None:
    if target := re.search(
        r"requires? (?:\.target |architecture )['\"]?(?P<arch>sm_\d+[af]?)|(?:on|for) \.?target '?(?P<got>sm_\d+[af]?)",
        d.message,
    ):
        wanted = target["arch"]
        special = re.search(r"(?:wgmma|setmaxnreg|tcgen05|cp\.reduce\.async\.bulk\.tensor)", d.message)
        if special and target["got"]:
            wanted = f"{target['got'].rstrip('af')}a"
        if wanted and wanted.endswith("a"):
            return (
                f"This instruction exists only on {wanted}: pass extra_cuda_cflags=['-arch={wanted}'] (it must be "
                "the device's own)."
            )
        return (
            "This instruction does not exist on the architecture that the device has: see the PTX manual for "
            "what it needs."
        )
    if re.search(
        r"[Uu]nsupported gpu architecture|unknown (?:gpu )?architecture|is not defined for option .gpu-architecture",
        d.message,
    ):
        return (
            "This CUDA toolkit does not know that architecture: leave -arch and -gencode out, the device's own "
            "is the default."
        )
    return None


def _half_operators(d: Diagnostic, s: Sources) -> str | None:
    missing = r"operator|no suitable (?:conversion|user-defined conversion|constructor)"
    if not re.search(r"__(?:half|nv_bfloat16)", d.message) or not re.search(missing, d.message):
        return None
    return (
        "torch compiles with __half and bfloat16 operators switched off: use __hadd, __hmul, __float2half, "
        "..., compute in "
        "float, or pass extra_cuda_cflags=['-U__CUDA_NO_HALF_OPERATORS__', '-U__CUDA_NO_HALF_CONVERSIONS__', "
        "'-U__CUDA_NO_BFLOAT16_CONVERSIONS__', '-U__CUDA_NO_HALF2_OPERATORS__']."
    )


def _extended_lambda(d: Diagnostic, s: Sources) -> str | None:
    if "extended-lambda" in d.message or re.search(r"__(?:host__ )?__?device__ lambda", d.message):
        return "Pass extra_cuda_cflags=['--extended-lambda'] to use __device__ lambdas."
    return None


def _compiler_gave_up(d: Diagnostic, s: Sources) -> str | None:
    if "internal compiler error" not in d.message and "signal terminated program" not in d.message:
        return None
    return (
        "The compiler itself gave up on this source, most often over templates or constexpr functions without an end."
    )


def _library_missing(d: Diagnostic, s: Sources) -> str | None:
    if match := re.match(r"cannot find -l(?P<name>\S+)", d.message):
        return f"There is no library {match['name'].rstrip(':')} here: take it out of extra_ldflags, or check its name."
    return None


_RULES: tuple[Rule, ...] = (
    _not_declared,
    _own_module,
    _duplicate_parameter,
    _undefined,
    _no_module,
    _unknown_header,
    _launch_from_cpp,
    _shared_memory,
    _architecture,
    _half_operators,
    _extended_lambda,
    _library_missing,
    _compiler_gave_up,
)
