"""The lean headers: what a source gets from `torch/extension.h`, without the nine tenths of it that it does not use.

Nearly all of a build is parsing torch's headers, so a build first tries a folder of headers that shadow the large
ones (`torch/extension.h`, `torch/types.h`, `ATen/ATen.h`, ...) and include the same small headers of the installed
torch that those would: Tensor, its operators, dispatch macros, dtypes, pybind11's casters. What only some sources need
comes in a header written for each translation unit, by the names that occur in its text: the operators
(`ATen/ops/NAME.h`) and torch's own factory functions, which hide those of `at::`.

Hardly anything is declared here by hand. A name either has torch's own declarations, all overloads of it, or none; then
the compiler says so and the build is done again with the full headers. So what a lean object does is what a full one
does. Three things are cut out of torch's own text, because they cost the most and give a source nothing:

- the headers of single operators lose includes that they do not use (`ATen/Context.h` and others);
- `torch/types.h` loses its includes and keeps its names;
- the factory functions keep their definitions, but for what marks the fresh tensor as requiring a gradient: theirs
  needs the whole of autograd's headers, `Tensor::set_requires_grad` does the same to a fresh tensor.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LEAN_VERSION = 1
"""Goes into the keys of builds and header folders: raise it with any change of what is written here."""
UNIT_HEADER = "harness_unit.h"
FLAGS = ("-DAT_PER_OPERATOR_HEADERS",)
"""Torch's own switch: its headers then include single operators rather than all of them."""

_STD = (
    *(
        "algorithm",
        "array",
        "atomic",
        "cassert",
        "chrono",
        "cmath",
        "cstddef",
        "cstdint",
        "cstdio",
        "cstdlib",
        "cstring",
    ),
    *(
        "functional",
        "initializer_list",
        "iomanip",
        "iostream",
        "iterator",
        "limits",
        "map",
        "memory",
        "mutex",
        "numeric",
    ),
    *("optional", "set", "sstream", "stdexcept", "string", "string_view", "thread", "tuple", "type_traits"),
    *("unordered_map", "unordered_set", "utility", "variant", "vector"),
)
_AT = (
    *(
        "ATen/core/Tensor.h",
        "ATen/TensorOperators.h",
        "ATen/Dispatch.h",
        "ATen/Dispatch_v2.h",
        "c10/core/DeviceGuard.h",
    ),
    *("ATen/TensorUtils.h", "ATen/core/Formatting.h", "ATen/Formatting.h", "ATen/core/grad_mode.h", "ATen/Parallel.h"),
    *(
        "ATen/core/Reduction.h",
        "ATen/DimVector.h",
        "ATen/TensorGeometry.h",
        "ATen/core/TensorAccessor.h",
        "ATen/Version.h",
    ),
    *("c10/core/ScalarType.h", "c10/core/TensorOptions.h", "c10/core/InferenceMode.h", "c10/util/Exception.h"),
    *("c10/util/Half.h", "c10/util/BFloat16.h", "c10/util/complex.h", "c10/util/Optional.h", "c10/util/irange.h"),
    *("c10/util/Logging.h", "c10/util/StringUtil.h", "c10/util/OptionalArrayRef.h", "c10/util/accumulate.h"),
)
_PYTHON = (
    *("torch/csrc/utils/pybind.h", "torch/csrc/Exceptions.h", "torch/csrc/Device.h", "torch/csrc/Dtype.h"),
    *("torch/csrc/DynamicTypes.h", "torch/csrc/python_headers.h", "torch/csrc/autograd/python_variable.h"),
    *("torch/csrc/utils/python_numbers.h", "torch/csrc/utils/python_tuples.h"),
)
_SHADOWED = {
    # Path below the lean folder -> (torch:: names, pybind11).
    "torch/extension.h": (True, True),
    "torch/python.h": (True, True),
    "torch/torch.h": (True, False),
    "torch/all.h": (True, False),
    "torch/types.h": (True, False),
    "torch/csrc/api/include/torch/types.h": (True, False),
    "torch/csrc/api/include/torch/all.h": (True, False),
    "ATen/ATen.h": (False, False),
}
# Parts of torch that a source either does not touch or needs whole.
_NEEDS_FULL = re.compile(
    r"\btorch\s*::\s*(?:nn|optim|jit|data|serialize|autograd|save|load|python|nested|sparse|linalg|special|fft|xpu|mps)\b"
    r"|#\s*include\s*[<\"]torch/(?!extension\.h|torch\.h|types\.h|all\.h|python\.h|library\.h|cuda\.h|csrc/)"
    r"|\bat\s*::\s*native\b|#\s*include\s*[<\"]ATen/(?:native|NativeFunctions)|\bTORCH_STABLE_ONLY\b|\bTORCH_TARGET_VERSION\b"
)
_TRIGGERS: tuple[tuple[str, str], ...] = (
    (r"\b(?:indexing|Slice|index|index_put_|TensorIndex|Ellipsis)\b", "ATen/TensorIndexing.h"),
    (r"\b(?:TORCH_LIBRARY\w*|class_|RegisterOperators|CppFunction|Library|schema)\b", "torch/library.h"),
    (r"\b(?:IValue|ivalue|Dict|List|jit)\b", "ATen/core/ivalue.h"),
    (r"\b(?:globalContext|hasCUDA|Context|manual_seed|detail)\b", "ATen/Context.h"),
    (r"\b(?:scalar_to_tensor|wrapped_scalar_tensor)\b", "ATen/ScalarOps.h"),
    (r"\b(?:expand_\w+|infer_size|sum_to|are_expandable)\b", "ATen/ExpandUtils.h"),
    (r"\b(?:Generator|make_generator|get_generator_or_default)\b", "ATen/core/Generator.h"),
    (r"\b(?:acc_type|AccumulateType|toAccumulateType)\b", "ATen/AccumulateType.h"),
    (r"\b(?:RECORD_FUNCTION|record_function|RecordFunction)\b", "ATen/record_function.h"),
    (r"\btorch\s*::\s*cuda\b", "torch/cuda.h"),
    (r"\b(?:Storage|DataPtr|Allocator|GetAllocator)\b", "c10/core/Allocator.h"),
    (r"\bdevice_of\b", "ATen/DeviceGuard.h"),
    (r"\b(?:TensorList|ITensorListRef|IListRef|cat|stack|concat)\b", "ATen/core/IListRef.h"),
    (r"\bTensorIterator\w*\b", "ATen/TensorIterator.h"),
    (r"\b(?:variable|make_variable|Variable)\b", "torch/csrc/autograd/variable.h"),
)
_USES_PYTHON = re.compile(r"PYBIND11|pybind|\bpy\s*::|\bPy[A-Z_]\w*|\bTHP\w+|wrap_pybind|HANDLE_TH_ERRORS")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# Possessive: the text is a stranger's, and backtracking into a long word would cost its length squared.
_CALLED = re.compile(r"\b([A-Za-z_]\w*+)\s*+[(<]")
_FACTORY = re.compile(r"^inline at::Tensor (\w+)\((?:.*\n)*?\}\n", re.MULTILINE)
_USING = re.compile(r"^using [^;\n]*;$", re.MULTILINE)
_UNUSED_BY_OPERATORS = re.compile(r"^#include <ATen/(?:Context|DeviceGuard|TracerMode)\.h>\n", re.MULTILINE)
_MARK = "harness_fresh"
_FRESH = f"""\
inline at::Tensor {_MARK}(at::Tensor fresh, bool requires_grad) {{
  if (requires_grad) fresh.set_requires_grad(true);
  return fresh;
}}"""
_FACTORIES_PATH = "torch/csrc/autograd/generated/variable_factories.h"


@dataclass(frozen=True)
class LeanHeaders:
    """Lean headers for one installed torch."""

    torch_include: Path

    @property
    def supported(self) -> bool:
        """Whether the installed torch has the parts that lean headers are made of."""
        needed = ("ATen/core/Tensor.h", "ATen/ops/empty.h", "torch/csrc/utils/pybind.h", _FACTORIES_PATH)
        return all((self.torch_include / path).is_file() for path in needed) and self._types_text() is not None

    def shadows(self) -> dict[str, str]:
        """The folder of shadowing headers: path -> text."""
        types = self._types_text() or ""
        files = {
            "harness/at.h": _guarded("AT", [*_includes(_STD), *_includes(self._there(_AT))]),
            "harness/types.h": _guarded("TYPES", ["#include <harness/at.h>", types]),
            "harness/python.h": _guarded("PYTHON", _includes(self._there(_PYTHON))),
        }
        for path, (names, python) in _SHADOWED.items():
            lines = ["#include <harness/types.h>" if names else "#include <harness/at.h>"]
            if python:
                # The CUDA side seldom binds anything; where it does, its unit's header says so.
                lines += ["#if !defined(__CUDACC__)", "#include <harness/python.h>", "#endif"]
            lines += [f"#if __has_include(<{UNIT_HEADER}>)", f"#include <{UNIT_HEADER}>", "#endif"]
            files[path] = _guarded(re.sub(r"\W", "_", path).upper(), lines)
        return files | self._operators()

    def _operators(self) -> dict[str, str]:
        files = {}
        for path in (self.torch_include / "ATen" / "ops").glob("*.h"):
            if not path.name.endswith(("_ops.h", "_native.h", "_dispatch.h", "_meta.h")):
                text = path.read_text("utf-8")
                if "#include <ATen/Context.h>" in text:
                    files[f"ATen/ops/{path.name}"] = _UNUSED_BY_OPERATORS.sub("", text)
        return files

    def unit_header(self, texts: Iterable[str], *, cuda: bool) -> str | None:
        """The header of one translation unit, from the texts it is made of; None where only the full ones will do."""
        text = "\n".join(texts)
        if _NEEDS_FULL.search(text):
            return None
        called = set(_CALLED.findall(text))
        names = set(_IDENTIFIER.findall(text))
        factories = self._factories()
        # Pasted names can't be seen from here, and a torch:: factory that is missed would quietly be at::'s.
        used = set(factories) if "##" in text else names & set(factories)
        operators = sorted(
            name for name in (called | used) if (self.torch_include / "ATen" / "ops" / f"{name}.h").is_file()
        )
        lines = _includes(f"ATen/ops/{name}.h" for name in operators)
        for pattern, header in _TRIGGERS:
            if re.search(pattern, text):
                lines += _includes(self._there([header]))
        if cuda and _USES_PYTHON.search(text):
            lines.append("#include <harness/python.h>")
        if used:
            lines += self._factory_lines(used, factories)
        return _guarded("UNIT", ["#include <harness/at.h>", *lines])

    def _factory_lines(self, used: set[str], factories: dict[str, list[str]]) -> list[str]:
        source = self._read(_FACTORIES_PATH)
        needs = ["ATen/TracerMode.h", "ATen/core/LegacyTypeDispatch.h"]
        if "tensor" in used:
            needs.append("torch/csrc/api/include/torch/detail/TensorDataContainer.h")
        lines = _includes(self._there(needs))
        lines += ["namespace torch {", _FRESH, *_USING.findall(source)]
        blocks = [block for name in sorted(used) for block in factories[name]]
        lines += [block.replace("autograd::make_variable(", f"{_MARK}(") for block in blocks]
        return [*lines, "}  // namespace torch"]

    def _factories(self) -> dict[str, list[str]]:
        """Torch's factory functions as its installed header defines them: name -> definitions."""
        found: dict[str, list[str]] = {}
        for match in _FACTORY.finditer(self._read(_FACTORIES_PATH)):
            found.setdefault(match[1], []).append(match[0])
        return found

    def _types_text(self) -> str | None:
        """torch/types.h without what it includes: the names that torch:: has beside at::'s."""
        try:
            text = self._read("torch/csrc/api/include/torch/types.h")
        except FileNotFoundError:
            return None
        kept = [line for line in text.splitlines() if not re.match(r"\s*#\s*(?:include|pragma)\b", line)]
        return "\n".join(kept)

    def _read(self, path: str) -> str:
        return (self.torch_include / path).read_text("utf-8")

    def _there(self, paths: Iterable[str]) -> list[str]:
        return [path for path in paths if self._exists(path)]

    def _exists(self, path: str) -> bool:
        roots = (self.torch_include, self.torch_include / "torch" / "csrc" / "api" / "include")
        return any(os.path.isfile(root / path) for root in roots)


def _includes(paths: Iterable[str]) -> list[str]:
    return [f"#include <{path}>" for path in paths]


def _guarded(name: str, lines: Iterable[str]) -> str:
    guard = f"HARNESS_LEAN_{name}"
    return "\n".join([f"#ifndef {guard}", f"#define {guard}", *lines, f"#endif  // {guard}", ""])
