"""The flags that a submission may pass, as patterns of whole words. See flags.py for what is done with them."""

from __future__ import annotations

import re


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.DOTALL)


DEFINES = (r"-D[A-Za-z_]\w*(?:\([\w, ]*\))?(?:=.*)?", r"-U[A-Za-z_]\w*")

_GCC_F = "|".join(
    (
        r"fast-math|finite-math-only|associative-math|reciprocal-math|signed-zeros|trapping-math|math-errno|rounding-math",
        r"unsafe-math-optimizations|signaling-nans|fp-contract=(?:fast|on|off)|excess-precision=\w+",
        r"unroll-loops|unroll-all-loops|peel-loops|inline|inline-functions|inline-small-functions|inline-limit=\d+",
        r"omit-frame-pointer|strict-aliasing|strict-overflow|wrapv|trapv|delete-null-pointer-checks|ipa-[a-z-]+",
        r"tree-[a-z-]+|vect-cost-model=\w+|prefetch-loop-arrays|split-loops|gcse|schedule-insns2?|merge-constants",
        r"align-(?:functions|loops|jumps)(?:=[\d:]+)?|function-sections|data-sections|lto(?:=(?:auto|\d+))?",
        r"openmp|openmp-simd|visibility=(?:default|hidden|protected|internal)|visibility-inlines-hidden",
        r"PIC|pic|permissive|exceptions|non-call-exceptions|rtti|threadsafe-statics|diagnostics-color(?:=\w+)?",
        r"template-depth[=-]\d+|constexpr-(?:depth|loop-limit|ops-limit)=\d+|max-errors=\d+|concepts|coroutines|char8_t",
        r"signed-char|unsigned-char|common|stack-protector(?:-\w+)?|semantic-interposition|plt|gnu-unique",
        r"asynchronous-unwind-tables|unwind-tables",
    )
)
_GCC_M = "|".join(
    (
        r"(?:arch|tune|cpu)=[\w.+-]+|avx\w*(?:\.\d)?|sse\w*(?:\.\d)?|ssse3|fma4?|f16c|bmi2?|lzcnt|popcnt|amx-\w+|64",
        r"prefer-vector-width=\w+|recip(?:=[\w,!-]+)?|fpmath=[\w,+]+|pclmul|aes|movbe|prfchw",
    )
)
HOST_CODE = _any_of(rf"-f(?:no-)?(?:{_GCC_F})", rf"-m(?:no-)?(?:{_GCC_M})", r"-pthread", r"-O(?:[0-3sgz]|fast)?")
"""Code generation of the C++ compiler."""
HOST = _any_of(
    HOST_CODE.pattern,
    *DEFINES,
    r"-g(?:[0-3]|gdb[0-3]?|dwarf-[2-5])?",
    r"--?std=(?:c|gnu)\+\+\w+",
    r"-W(?![lap](?:,|$))[A-Za-z][\w+=<>-]*|-W|-w|-pedantic(?:-errors)?|--pedantic|-ansi",
    r"-pipe|-v",
)
"""Everything that the C++ compiler takes as one word."""

_TRUTH = r"(?:true|false)"
NVCC_VALUES: dict[str, str] = {
    "ftz": _TRUTH,
    "prec-div": _TRUTH,
    "prec-sqrt": _TRUTH,
    "fmad": _TRUTH,
    "maxrregcount": r"\d+",
    "std": r"c\+\+\w+",
    "default-stream": r"(?:legacy|null|per-thread)",
    "threads": r"\d+",
    "t": r"\d+",
    "split-compile": r"\d+",
    "split-compile-extended": r"\d+",
    "rdc": _TRUTH,
    "relocatable-device-code": _TRUTH,
    "diag-suppress": r"[\w,-]+",
    "diag-warn": r"[\w,-]+",
    "diag-error": r"[\w,-]+",
    "diag_suppress": r"[\w,-]+",
    "diag_warn": r"[\w,-]+",
    "optimize": r"[0-3]",
    "O": r"[0-3]",
    "Werror": r"(?:all-warnings|cross-execution-space-call|reorder|default-stream-launch|\w+(?:-\w+)+)",
    "ftemplate-depth": r"\d+",
    "ftemplate-backtrace-limit": r"\d+",
    "compress-mode": r"\w+",
    "machine": "64",
    "m": "64",
    "Ofast-compile": r"\w+",
    "Ofc": r"\w+",
}
"""Options of nvcc with a value, which comes after `=` or as the next word, after one dash or two."""
ARCHITECTURE = r"(?:(?:sm|compute|lto)_\d+[af]?|native|all|all-major)"
NVCC_ARCHITECTURES: dict[str, str] = {
    "arch": ARCHITECTURE,
    "gpu-architecture": ARCHITECTURE,
    "code": r"[\w,\[\]\"']+",
    "gpu-code": r"[\w,\[\]\"']+",
    "gencode": r"arch=compute_\d+[af]?,code=[\w,\[\]\"']+",
    "generate-code": r"arch=compute_\d+[af]?,code=[\w,\[\]\"']+",
}
NVCC = _any_of(
    *DEFINES,
    r"-O[0-3]|-G|--device-debug|-g|--debug|-lineinfo|--generate-line-info|-t\d+|-m64|-w|--disable-warnings|-v|--verbose",
    r"--?use[_-]fast[_-]math|--?extra-device-vectorization|--?expt-relaxed-constexpr|--?expt-extended-lambda",
    r"--?extended-lambda|--?restrict|--?resource-usage|-res-usage|--?source-in-ptx|-src-in-ptx|--?display[_-]error[_-]number",
    r"--?no-display-error-number|-W(?:reorder|default-stream-launch|ext-lambda-captures-this|missing-launch-bounds)",
    r"-Wno-deprecated-gpu-targets|--?allow-unsupported-compiler|--?forward-unknown-to-host-compiler|--?no-exceptions|-noeh",
    r"--?no-host-device-(?:initializer-list|move-forward)|--?keep-device-functions|-std=c\+\+\w+",
)
"""Everything that nvcc takes as one word."""
PTXAS = _any_of(
    r"-v|--verbose|-O[0-4]|--opt-level=[0-4]|-w|--disable-warnings|--?Werror|-lineinfo|--generate-line-info|-g|--device-debug",
    r"--?warn-(?:spills|lmem-usage|double-usage|on-spills|on-local-memory-usage|on-double-precision-use)",
    r"--?(?:dlcm|dscm|flcm|fscm|(?:def|force)-(?:load|store)-cache)=\w+|--?allow-expensive-optimizations(?:=\w+)?",
    r"--?maxrregcount=\d+|--?fmad=\w+|--?suppress-[\w-]+|--?disable-optimizer-constants|--?register-usage-level=\d+",
    r"--?split-compile=\d+|--?return-at-end|--?sp-bounds-check|--?position-independent-code(?:=\w+)?",
)
CUDAFE = _any_of(r"--?diag_(?:suppress|warning|error|remark|warn)=[\w,-]+|--display_error_number|--no_warnings")
LINKER = _any_of(
    r"--(?:no-)?as-needed|-O[0-3]?|-s|-S|--strip-(?:all|debug)|--(?:no-)?gc-sections|-z|now|lazy|relro|noexecstack|nodelete|defs",
    r"--no-undefined|--allow-shlib-undefined|--(?:start|end)-group|-Bsymbolic(?:-functions)?|--exclude-libs|ALL",
    r"--(?:dis|en)able-new-dtags|-B(?:static|dynamic)|--hash-style=\w+|--build-id(?:=\w+)?",
)
LIBRARY = _any_of(
    r"cuda|cudart|cudadevrt|cublas|cublasLt|cudnn\w*|cufftw?|cufile|curand|cusolver|cusolverMg|cusparse|cusparseLt",
    r"nvrtc|nvrtc-builtins|nvJitLink|nvjpeg|nvToolsExt|nvtx3interop|nccl|npp\w+|nvidia-ml|nvptxcompiler_static|cupti",
    r"nvfatbin|nvvm|c10|c10_cuda|torch|torch_cpu|torch_cuda|torch_python",
    r"m|dl|rt|pthread|c|stdc\+\+|stdc\+\+fs|gcc|gcc_s|gomp|atomic|mvec|util|tbb",
)
"""Libraries of the toolkit, of torch, and of the C++ compiler."""
