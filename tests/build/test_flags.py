"""Flags are allowed by what they mean; everything else is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.build.flags import FlagNotAllowed, Roots, host_flags, include_path, link_flags, nvcc_flags


@pytest.mark.parametrize("flag", ["-Xcompiler=\\'", "-Xcompiler \\'", '--compiler-options=-O3,\\"', "-Xcompiler=\\\\"])
def test_quotes_inside_what_is_passed_on_have_to_close(flag: str, roots: Roots) -> None:
    with pytest.raises(FlagNotAllowed, match="quotes do not close"):
        nvcc_flags((flag,), "extra_cuda_cflags", roots)


def test_links_that_go_in_circles_lead_nowhere(roots: Roots, tmp_path: Path) -> None:
    (tmp_path / "cuda" / "circle").symlink_to("circle")
    with pytest.raises(FlagNotAllowed, match="outside the toolkit"):
        include_path(str(tmp_path / "cuda" / "circle" / "x"), "extra_include_paths", roots)


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    for name in ("cuda/include", "cuda/lib64", "home"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "cuda" / "out").symlink_to(tmp_path / "home")
    return Roots(headers=(tmp_path / "cuda",), libraries=(tmp_path / "cuda",))


@pytest.mark.parametrize(
    "flag",
    [
        *(
            "-O3",
            "-O2",
            "-Ofast",
            "-O",
            "-g",
            "-DNDEBUG",
            "-DN=4",
            "-D 'NAME=\"a b\"'",
            "-UNDEBUG",
            "-std=c++17",
            "-std=gnu++20",
        ),
        *(
            "-march=native",
            "-mavx2",
            "-mavx512f",
            "-mfma",
            "-mtune=native",
            "-ffast-math",
            "-fno-math-errno",
            "-funroll-loops",
        ),
        *("-fopenmp", "-fPIC", "-Wall", "-Wno-unused-variable", "-Wextra", "-w", "-fvisibility=hidden", "-pthread"),
        *("-ftemplate-depth=1024", "-O3 -Wall", "-ftree-vectorize", "-fno-strict-aliasing"),
    ],
)
def test_host_flags_that_pass(flag: str, roots: Roots) -> None:
    assert host_flags((flag,), "extra_cflags", roots)


@pytest.mark.parametrize(
    "flag",
    [
        *(
            "-O3",
            "--use_fast_math",
            "-use_fast_math",
            "-lineinfo",
            "--generate-line-info",
            "-Xptxas -v",
            "-Xptxas=-v,-O3",
            "-G",
        ),
        *(
            "--ptxas-options=-v",
            "-Xptxas -dlcm=ca",
            "--expt-relaxed-constexpr",
            "--expt-extended-lambda",
            "--extended-lambda",
        ),
        *(
            "-maxrregcount=64",
            "--maxrregcount 64",
            "-std=c++17",
            "--std=c++20",
            "-std c++17",
            "-DX",
            "-U__CUDA_NO_HALF_OPERATORS__",
        ),
        *(
            "-arch=sm_90",
            "-arch sm_90a",
            "--gpu-architecture=sm_90",
            "-gencode=arch=compute_90,code=sm_90",
            "-fmad=false",
        ),
        *("-gencode arch=compute_90a,code=sm_90a", "-gencode=arch=compute_90,code=[sm_90,compute_90]", "--ftz=true"),
        *(
            "-prec-div=false",
            "--prec-sqrt false",
            "-Xcompiler -O3",
            "-Xcompiler=-fopenmp,-O3",
            "-Xcompiler '-O3 -Wall'",
        ),
        *(
            "--threads 4",
            "-t4",
            "-t 4",
            "-diag-suppress 177",
            "--diag_suppress=177,20012",
            "-Xcudafe --diag_suppress=177",
        ),
        *(
            "--default-stream=per-thread",
            "-rdc=true",
            "--restrict",
            "-res-usage",
            "-w",
            "-Xcompiler -fPIC",
            "--split-compile=0",
        ),
        *(
            "--compiler-options '-fPIC'",
            "-extra-device-vectorization",
            "-allow-unsupported-compiler",
            "-Werror all-warnings",
        ),
    ],
)
def test_nvcc_flags_that_pass(flag: str, roots: Roots) -> None:
    assert nvcc_flags((flag,), "extra_cuda_cflags", roots)


@pytest.mark.parametrize(
    "flag", ["-lcublas", "-l cudnn", "-lcuda", "-lgomp", "-Wl,--no-as-needed", "-Wl,-O1", "-fopenmp"]
)
def test_link_flags_that_pass(flag: str, roots: Roots) -> None:
    assert link_flags((flag,), "extra_ldflags", roots)


REFUSED = [
    *(
        "-fplugin=/tmp/p.so",
        "-B/tmp",
        "-B /tmp",
        "@/tmp/flags",
        "-wrapper gdb,--args",
        "-specs=/tmp/s",
        "-o /tmp/x",
        "-save-temps",
    ),
    *(
        "-include /etc/passwd",
        "-imacros /etc/passwd",
        "-Wl,-T,/tmp/script",
        "-Wp,-MD,/tmp/x",
        "-Wa,-I/tmp",
        "-Xlinker -T",
    ),
    *(
        "-Xassembler -I",
        "-Xpreprocessor -MD",
        "-MD",
        "-MF /tmp/x",
        "-dumpdir /tmp",
        "--sysroot=/",
        "-isysroot /",
        "-x c",
        "-E",
    ),
    *(
        "-fdump-tree-all",
        "-fprofile-generate=/tmp",
        "-fprofile-use=/etc",
        "-fdebug-prefix-map=a=b",
        "-nostdinc",
        "-static",
        "-I/etc",
    ),
    *(
        "-fuse-ld=/tmp/ld",
        "$(id)",
        "`id`",
        "/etc/passwd",
        "main.o",
        "-O9x",
        "-fplugin-arg-x-y",
        "--param x=1",
        "'unclosed",
        "-L/tmp",
    ),
    *(
        "-I../up",
        "-I /root",
        "-I",
        "-D",
        "-Dx-y",
        "-fsanitize=address",
        "-iprefix /tmp",
        "-iquote /etc",
        "-idirafter /etc",
    ),
]


@pytest.mark.parametrize("check", [host_flags, nvcc_flags, link_flags])
@pytest.mark.parametrize("flag", REFUSED)
def test_flags_that_are_refused(check: object, flag: str, roots: Roots) -> None:
    assert callable(check)
    with pytest.raises(FlagNotAllowed):
        check((flag,), "flags", roots)


@pytest.mark.parametrize(
    "flag",
    [
        *(
            "-ccbin /tmp/gcc",
            "--compiler-bindir=/tmp",
            "--options-file /tmp/x",
            "-optf x",
            "--keep",
            "--keep-dir=/tmp",
            "-dryrun",
        ),
        *(
            "-Xcompiler -fplugin=/tmp/p.so",
            "-Xcompiler=-B/tmp",
            "-Xcompiler -O3,-wrapper,x",
            "-Xptxas @/tmp/f",
            "-Xptxas -o,/tmp/x",
        ),
        *(
            "--pre-include x",
            "-run",
            "-odir /tmp",
            "-Xnvlink -v",
            "-Xarchive x",
            "-Xfatbin x",
            "--output-file x",
            "-Xcudafe --list=/tmp/x",
        ),
        *(
            "-ldir /tmp",
            "--library-path=/tmp",
            "-idp x",
            "--nvlink-options=x",
            "-MF x",
            "--dont-use-profile",
            "-arch=sm_90;id",
        ),
    ],
)
def test_nvcc_flags_that_are_refused(flag: str, roots: Roots) -> None:
    with pytest.raises(FlagNotAllowed):
        nvcc_flags((flag,), "extra_cuda_cflags", roots)


@pytest.mark.parametrize(
    "flag",
    ["-lssl", "-l:libc.so", "-lfoo/../x", "-Wl,-rpath,/tmp", "-Wl,@/tmp/x", "-Wl,-plugin,x", "-Wl,--version-script=x"],
)
def test_link_flags_that_are_refused(flag: str, roots: Roots) -> None:
    with pytest.raises(FlagNotAllowed):
        link_flags((flag,), "extra_ldflags", roots)


def test_a_refusal_names_the_flag_and_what_is_allowed(roots: Roots) -> None:
    with pytest.raises(
        FlagNotAllowed, match=r"'-fplugin=x\.so' in extra_cflags is not allowed.*Allowed are optimisation"
    ) as caught:
        host_flags(("-O3 -fplugin=x.so",), "extra_cflags", roots)
    assert caught.value.flag == "-fplugin=x.so"


def test_include_paths_lie_in_the_toolkit_or_among_the_requests_files(tmp_path: Path, roots: Roots) -> None:
    inside = str(tmp_path / "cuda" / "include")
    assert include_path(inside, "extra_include_paths", roots) == inside
    assert include_path("src/common", "extra_include_paths", roots) == "src/common"
    for outside in (
        tmp_path / "home",
        tmp_path / "cuda" / ".." / "home",
        tmp_path / "cuda" / "out",
        "../x",
        "a/../../b",
    ):
        with pytest.raises(FlagNotAllowed):
            include_path(str(outside), "extra_include_paths", roots)
