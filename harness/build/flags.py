"""Which compiler and linker flags a submission may pass, by what they mean.

A flag is a string that torch would give to a shell; it is split as a shell splits words, and each word must be one that
is known and harmless: optimisation, fast math, defines, language standard, register limits, line info, warnings, ptxas
verbosity, architecture, include paths of the toolkit, torch and CUTLASS, libraries of the toolkit. Everything else is
refused by name: what loads code into the compiler (`-fplugin`, `-B`, `-specs`, `-wrapper`, `-ccbin`), reads flags from a
file (`@file`, `--options-file`), writes elsewhere (`-o`, `-save-temps`, `--keep`), or talks past the driver (`-Wl,-T`).
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ALLOWED = (
    "optimisation (-O, -f... of code generation, -m... of the instruction set, --use_fast_math, -fmad, -ftz, ...), "
    "defines (-D, -U), the language standard (-std), register limits (-maxrregcount), line info (-lineinfo, -g), "
    "warnings (-W..., -w, -diag-suppress), ptxas options (-Xptxas -v, -O, -dlcm, ...), the architecture (-arch, -gencode), "
    "include paths inside the toolkit, torch and CUTLASS (-I), and libraries of the toolkit (-l)"
)


class FlagNotAllowed(Exception):
    """A flag that is not on the list."""

    def __init__(self, flag: str, where: str, why: str = "") -> None:
        because = f": {why}" if why else ""
        super().__init__(f"The flag {flag!r} in {where} is not allowed{because}. Allowed are {ALLOWED}.")
        self.flag = flag
        self.where = where


@dataclass(frozen=True)
class Roots:
    """Where paths in flags may point."""

    headers: tuple[Path, ...]
    libraries: tuple[Path, ...]
    own: tuple[str, ...] = ()
    """Folders of the request's own files, relative."""


_F = (
    r"fast-math|finite-math-only|associative-math|reciprocal-math|signed-zeros|trapping-math|math-errno|rounding-math|"
    r"unsafe-math-optimizations|signaling-nans|fp-contract=(?:fast|on|off)|excess-precision=\w+|"
    r"unroll-loops|unroll-all-loops|peel-loops|inline|inline-functions|inline-small-functions|inline-limit=\d+|"
    r"omit-frame-pointer|strict-aliasing|strict-overflow|wrapv|trapv|tree-vectorize|tree-loop-vectorize|tree-slp-vectorize|"
    r"vect-cost-model=\w+|prefetch-loop-arrays|split-loops|ipa-[a-z-]+|tree-[a-z-]+|gcse|schedule-insns2?|"
    r"align-(?:functions|loops|jumps)(?:=[\d:]+)?|delete-null-pointer-checks|"
    r"openmp|openmp-simd|visibility=(?:default|hidden|protected|internal)|visibility-inlines-hidden|"
    r"PIC|pic|permissive|exceptions|non-call-exceptions|rtti|threadsafe-statics|diagnostics-color(?:=\w+)?|"
    r"template-depth[=-]\d+|constexpr-depth=\d+|constexpr-loop-limit=\d+|constexpr-ops-limit=\d+|"
    r"concepts|coroutines|char8_t|signed-char|unsigned-char|common|function-sections|data-sections|stack-protector(?:-\w+)?|"
    r"max-errors=\d+|merge-constants|semantic-interposition|abi-version=\d+|plt|gnu-unique|asynchronous-unwind-tables|"
    r"unwind-tables|lto=?(?:auto|\d+)?|fat-lto-objects"
)
_HOST = re.compile(
    r"-O(?:[0-3sgz]|fast)?|"
    r"-g(?:[0-3]|gdb[0-3]?|dwarf-[2-5])?|"
    r"-std=(?:c|gnu)\+\+\w+|--std=(?:c|gnu)\+\+\w+|"
    r"-D[A-Za-z_]\w*(?:=.*)?|-U[A-Za-z_]\w*|"
    rf"-f(?:no-)?(?:{_F})|"
    r"-m(?:no-)?(?:arch=[\w.+-]+|tune=[\w.+-]+|cpu=[\w.+-]+|avx\w*(?:\.\d)?|sse\w*(?:\.\d)?|ssse3|fma4?|f16c|bmi2?|lzcnt|popcnt|amx-\w+|64|"
    r"prefer-vector-width=\w+|recip(?:=[\w,!-]+)?|fpmath=[\w,+]+|veclibabi=\w+|pclmul|aes|movbe|xop|prfchw)|"
    r"-W(?!l,|a,|p,|l$|a$|p$)[a-zA-Z][\w+=<>-]*|-W|-w|-pedantic(?:-errors)?|--pedantic|-ansi|"
    r"-pthread|-pipe|-fopenmp|-v",
    re.DOTALL,
)
_NVCC_ALONE = re.compile(
    r"-O(?:[0-3])?|-G|--device-debug|-g|--debug|-lineinfo|--generate-line-info|"
    r"-?-use_fast_math|-?-use-fast-math|-?-extra-device-vectorization|"
    r"-?-(?:ftz|prec-div|prec-sqrt|fmad)=(?:true|false)|"
    r"-?-expt-relaxed-constexpr|-?-expt-extended-lambda|-?-extended-lambda|-expt-relaxed-constexpr|"
    r"-?-restrict|-?-resource-usage|-res-usage|-w|--disable-warnings|-?-source-in-ptx|-src-in-ptx|"
    r"-?-display-error-number|-?-no-display-error-number|-?-display_error_number|-Wno-[\w-]+|-W(?:reorder|default-stream-launch|ext-lambda-captures-this|missing-launch-bounds)|"
    r"-?-Werror(?:[= ][\w,-]+)?|-?-optimize=[0-3]|-?-allow-unsupported-compiler|-allow-expensive-optimizations(?:=\w+)?|"
    r"-m64|-?-machine=64|-?-forward-unknown-to-host-compiler|-forward-unknown-to-host-compiler|-?-verbose|-v|"
    r"-?-no-exceptions|-noeh|-?-fdevice-time-trace|-?-no-host-device-initializer-list|-?-no-host-device-move-forward|"
    r"-?-(?:relocatable-device-code|rdc)=(?:true|false)|-dc|-?-ptxas-options|-keep-device-functions|-?-keep-device-functions|"
    r"-?-default-stream=(?:legacy|null|per-thread)|-?-(?:threads|split-compile)=\d+|-t\d+|-?-split-compile-extended=\d+|"
    r"-?-ftemplate-(?:depth|backtrace-limit)[= ]?\d+|-?-maxrregcount=\d+|-?-std=c\+\+\w+|-D[A-Za-z_]\w*(?:=.*)?|-U[A-Za-z_]\w*|"
    r"-?-(?:diag-suppress|diag-warn|diag-error|diag_suppress|diag_warn|diag_error)=[\w,]+|"
    r"-?-compress-mode=\w+|-?-(?:Ofast-compile|Ofc)=\w+|-?-(?:relaxed-constexpr)|-?-device-stack-protector=\w+|-?-entries=[\w,]+",
    re.DOTALL,
)
# Long names whose value may come as the next word, or after `=`.
_NVCC_VALUED = {
    "ftz": r"true|false", "prec-div": r"true|false", "prec-sqrt": r"true|false", "fmad": r"true|false",
    "maxrregcount": r"\d+", "std": r"c\+\+\w+", "default-stream": r"legacy|null|per-thread", "threads": r"\d+", "t": r"\d+",
    "split-compile": r"\d+", "rdc": r"true|false", "relocatable-device-code": r"true|false", "diag-suppress": r"[\w,]+",
    "diag-warn": r"[\w,]+", "diag-error": r"[\w,]+", "diag_suppress": r"[\w,]+", "optimize": r"[0-3]", "O": r"[0-3]",
    "Werror": r"[\w,-]+", "ftemplate-depth": r"\d+", "ftemplate-backtrace-limit": r"\d+", "compress-mode": r"\w+",
    "machine": "64", "m": "64",
}  # fmt: skip
_ARCH_VALUED = {
    "arch": r"(?:sm|compute)_\d+[af]?|native|all|all-major", "gpu-architecture": r"(?:sm|compute)_\d+[af]?|native|all|all-major",
    "code": r"[\w,\[\]\"']+", "gpu-code": r"[\w,\[\]\"']+", "gencode": r"arch=compute_\d+[af]?,code=[\w,\[\]\"']+",
    "generate-code": r"arch=compute_\d+[af]?,code=[\w,\[\]\"']+",
}  # fmt: skip
_PTXAS = re.compile(
    r"-v|--verbose|-O[0-4]|--opt-level=?[0-4]?|-?-warn-(?:spills|lmem-usage|double-usage|on-spills|on-local-memory-usage|on-double-precision-use)|"
    r"-?-(?:dlcm|dscm|def-load-cache|def-store-cache|flcm|fscm|force-load-cache|force-store-cache)=\w+|"
    r"-?-allow-expensive-optimizations(?:=\w+)?|-?-maxrregcount=\d+|-?-fmad=\w+|-?-suppress-\w[\w-]*|-w|--disable-warnings|-?-Werror|"
    r"-?-disable-optimizer-constants|-?-preserve-relocs|-?-position-independent-code(?:=\w+)?|-?-register-usage-level=?\d*|"
    r"-?-generate-line-info|-lineinfo|-?-split-compile=\d+|-?-device-debug|-g|-?-return-at-end|-?-sp-bounds-check"
)
_CUDAFE = re.compile(
    r"--?(?:diag_suppress|diag_warning|diag_error|diag_remark|diag_warn)=[\w,]+|--display_error_number|--no_warnings|--diag_suppress"
)
_LINK_PASS = re.compile(
    r"--(?:no-)?as-needed|-O[0-3]?|-s|--strip-all|-S|--strip-debug|--gc-sections|--no-gc-sections|-z|now|lazy|relro|noexecstack|nodelete|"
    r"--no-undefined|--allow-shlib-undefined|--start-group|--end-group|-Bsymbolic|-Bsymbolic-functions|--exclude-libs|ALL|--disable-new-dtags|--enable-new-dtags|"
    r"-Bstatic|-Bdynamic|--hash-style=\w+|--no-warn-mismatch|--build-id(?:=\w+)?"
)
_LIBRARY = re.compile(
    r"(?:cuda|cudart|cudadevrt|cublas|cublasLt|cudnn\w*|cufft|cufftw|cufile|curand|cusolver|cusolverMg|cusparse|cusparseLt|nvrtc|nvrtc-builtins|"
    r"nvJitLink|nvjpeg|nvToolsExt|nvtx3interop|nccl|npp\w+|nvidia-ml|nvptxcompiler_static|cupti|nvfatbin|nvvm|"
    r"c10|c10_cuda|torch|torch_cpu|torch_cuda|torch_python|"
    r"m|dl|rt|pthread|c|stdc\+\+|stdc\+\+fs|gcc|gcc_s|gomp|atomic|mvec|util|tbb)"
)


def _words(flags: tuple[str, ...], where: str) -> list[str]:
    words: list[str] = []
    for flag in flags:
        try:
            words += shlex.split(flag.strip())
        except ValueError:
            raise FlagNotAllowed(flag, where, "its quotes do not close") from None
        if any(mark in flag for mark in ("`", "$(", "\n")):
            raise FlagNotAllowed(flag, where, "no shell runs here")
    return words


def _path_inside(path: str, roots: tuple[Path, ...]) -> bool:
    if not path.startswith("/"):
        return False
    real = Path(path).resolve()
    return any(real == root.resolve() or root.resolve() in real.parents for root in roots)


def include_path(path: str, where: str, roots: Roots) -> str:
    """An include folder as it is passed on: one of the request's own, or one of the toolkit's."""
    flag = f"-I{path}"
    if not path.startswith("/"):
        parts = [part for part in PurePosixPath(path.strip()).parts if part != "."]
        if ".." in parts or any(part.startswith("-") for part in parts):
            raise FlagNotAllowed(flag, where, "an include path of your own must be a folder below the request's files")
        folder = "/".join(parts)
        # One that holds none of the request's files is allowed, as compilers allow folders that don't exist.
        return folder or "."
    if not _path_inside(path, roots.headers):
        raise FlagNotAllowed(flag, where, "it is outside the toolkit, torch and CUTLASS")
    return path


def host_flags(flags: tuple[str, ...], where: str, roots: Roots) -> list[str]:
    """Checked flags for the C++ compiler. Raises FlagNotAllowed."""
    return _host_words(_words(flags, where), where, roots)


def _host_words(words: list[str], where: str, roots: Roots) -> list[str]:
    out: list[str] = []
    queue = iter(words)
    for word in queue:
        if word in ("-I", "-isystem", "-D", "-U", "-idirafter", "-iquote"):
            value = next(queue, None)
            if value is None:
                raise FlagNotAllowed(word, where, "its value is missing")
            if word in ("-D", "-U"):
                out += _host_words([word + value], where, roots)
            else:
                out += [word, include_path(value, where, roots)]
        elif word.startswith("-I"):
            out.append(f"-I{include_path(word[2:], where, roots)}")
        elif word.startswith("-isystem"):
            out += ["-isystem", include_path(word.removeprefix("-isystem"), where, roots)]
        elif word.startswith("-l") and _LIBRARY.fullmatch(word[2:]):
            continue  # Compiling needs no library; torch's compilers ignore it just so.
        elif _HOST.fullmatch(word):
            out.append(word)
        else:
            raise FlagNotAllowed(word, where)
    return out


def link_flags(flags: tuple[str, ...], where: str, roots: Roots) -> list[str]:
    """Checked flags for the linker. Raises FlagNotAllowed."""
    out: list[str] = []
    queue = iter(_words(flags, where))
    for word in queue:
        if word in ("-l", "-L"):
            word += next(queue, "")
        if word.startswith("-l"):
            if not _LIBRARY.fullmatch(word[2:]):
                raise FlagNotAllowed(word, where, "it is not a library of the toolkit")
            out.append(word)
        elif word.startswith("-L"):
            if not _path_inside(word[2:], roots.libraries):
                raise FlagNotAllowed(word, where, "it is outside the toolkit and torch")
            out.append(word)
        elif word.startswith("-Wl,"):
            out += _linker_words(word, where, roots)
        elif word in (
            "-s",
            "-pthread",
            "-fopenmp",
            "-shared",
            "-fPIC",
            "-O0",
            "-O1",
            "-O2",
            "-O3",
            "-g",
            "-flto",
            "-fno-lto",
        ):
            out.append(word)
        else:
            raise FlagNotAllowed(word, where)
    return out


def _linker_words(word: str, where: str, roots: Roots) -> list[str]:
    parts = word.split(",")[1:]
    kept: list[str] = []
    queue = iter(parts)
    for part in queue:
        if part in ("-rpath", "-R") or part.startswith("-rpath="):
            path = part.removeprefix("-rpath=") if "=" in part else next(queue, "")
            if not _path_inside(path, roots.libraries):
                raise FlagNotAllowed(word, where, "it is outside the toolkit and torch")
            kept += ["-rpath", path]
        elif (part.startswith("-l") and _LIBRARY.fullmatch(part[2:])) or _LINK_PASS.fullmatch(part):
            kept.append(part)
        else:
            raise FlagNotAllowed(word, where)
    return ["-Wl," + ",".join(kept)] if kept else []


def nvcc_flags(flags: tuple[str, ...], where: str, roots: Roots) -> list[str]:
    """Checked flags for nvcc. Raises FlagNotAllowed."""
    out: list[str] = []
    queue = iter(_words(flags, where))
    for word in queue:
        name, equals, value = word.lstrip("-").partition("=")
        valued = {**_NVCC_VALUED, **_ARCH_VALUED}
        if word.startswith("-") and name in ("Xcompiler", "compiler-options"):
            inner = [part for part in (value if equals else next(queue, "")).split(",") if part]
            split = [piece for part in inner for piece in shlex.split(part)]
            for piece in _host_words(split, where, roots):
                out += ["-Xcompiler", piece]
        elif word.startswith("-") and name in ("Xptxas", "ptxas-options"):
            out += _passed("-Xptxas", value if equals else next(queue, ""), _PTXAS, word, where)
        elif word.startswith("-") and name == "Xcudafe":
            out += _passed("-Xcudafe", value if equals else next(queue, ""), _CUDAFE, word, where)
        elif word in ("-I", "-isystem", "--include-path", "--system-include", "-D", "-U"):
            value = next(queue, "")
            out += [word, value] if word in ("-D", "-U") else [word, include_path(value, where, roots)]
            if word in ("-D", "-U") and not _NVCC_ALONE.fullmatch(word + value):
                raise FlagNotAllowed(f"{word} {value}", where)
        elif word.startswith("-I"):
            out.append(f"-I{include_path(word[2:], where, roots)}")
        elif word.startswith("-l") and _LIBRARY.fullmatch(word[2:]):
            continue
        elif word.startswith("-") and equals and name in valued and re.fullmatch(valued[name], value):
            out.append(word)
        elif word.startswith("-") and not equals and name in valued and not (name == "O" and word.startswith("--")):
            value = next(queue, "")
            if name == "Werror" and not re.fullmatch(valued[name], value):
                raise FlagNotAllowed(word, where)
            if not re.fullmatch(valued[name], value):
                raise FlagNotAllowed(f"{word} {value}".strip(), where)
            out += [word, value]
        elif _NVCC_ALONE.fullmatch(word):
            out.append(word)
        elif _HOST.fullmatch(word) and word.startswith(("-f", "-m", "-W", "-pthread", "-O")):
            # nvcc itself refuses most of these; that it does is torch's behaviour and the user's to see.
            out.append(word)
        else:
            raise FlagNotAllowed(word, where)
    return out


def _passed(option: str, value: str, allowed: re.Pattern[str], word: str, where: str) -> list[str]:
    out: list[str] = []
    for part in _comma_parts(value):
        for piece in part.split():
            if not allowed.fullmatch(piece):
                raise FlagNotAllowed(f"{word} {value}".strip() if "=" not in word else word, where)
            out += [option, piece]
    return out


def _comma_parts(value: str) -> list[str]:
    """Split at commas, save those inside a value such as `--diag_suppress=177,178`."""
    parts: list[str] = []
    for part in value.split(","):
        if parts and not part.startswith("-"):
            parts[-1] += "," + part
        else:
            parts.append(part)
    return [part for part in parts if part]


def architectures_named(flags: list[str]) -> list[str]:
    """Architectures (`sm_90a`, `compute_80`) that checked nvcc flags ask for."""
    text = " ".join(flag for flag in flags if not flag.startswith(("-D", "-U", "-I")))
    return re.findall(r"(?:sm|compute)_\d+[af]?", text)
