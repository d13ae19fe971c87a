"""The compilers, headers and libraries of this machine, and the flags that the installed torch gives them.

The flags are not written down here: they are read from the ninja file that torch's own `cpp_extension` writes, so that
they are right for whichever torch is installed (language standard, ABI switches, half-precision switches, libraries).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import inspect
import io
import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.sandbox.base import Mount

# What the markers stand for in torch's command lines: the name, and the places where a user's own flags go.
_NAME = "HARNESS_NAME"
_CFLAG = "-DHARNESS_USER_CFLAGS"
_CUDA_FLAG = "-DHARNESS_USER_CUDA_CFLAGS"
_LDFLAG = "-DHARNESS_USER_LDFLAGS"

# Folders of the system that compilers, their libraries and the loader live in; nothing else of the host is shown.
_SYSTEM = (
    *("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/include", "/usr/local/include"),
    *("/bin", "/lib", "/lib32", "/lib64"),
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
)


class MissingCompiler(Exception):
    """Something that the build needs is not installed; the message says what, and what to install."""

    def __init__(self, missing: str, message: str) -> None:
        super().__init__(message)
        self.missing = missing


@dataclass(frozen=True)
class FlagTemplate:
    """Torch's flags around the place where the user's go."""

    before: tuple[str, ...]
    after: tuple[str, ...]

    def fill(self, name: str, user: tuple[str, ...]) -> list[str]:
        after = self.after
        if any(flag.startswith("-std=") for flag in user):
            # As torch: its own standard only where the user's flags name none.
            after = tuple(flag for flag in after if not flag.startswith("-std="))
        return [flag.replace(_NAME, name) for flag in (*self.before, *user, *after)]


@dataclass(frozen=True)
class Flags:
    """Torch's flags for extensions with CUDA, or for those without."""

    cxx: FlagTemplate
    nvcc: FlagTemplate | None
    link: FlagTemplate


@dataclass(frozen=True)
class Toolchain:
    """Everything that a build uses and did not come with the request."""

    cxx: Path
    cxx_version: str
    cuda_home: Path | None
    nvcc_version: str | None
    torch_version: str
    torch_cuda: str | None
    """The CUDA that torch is built for, `13.0`."""
    torch_root: Path
    cpu: Flags
    cuda: Flags | None
    wheel_includes: tuple[Path, ...]
    """Include folders of torch's nvidia wheels, for libraries whose headers the toolkit lacks."""
    wheel_libraries: tuple[Path, ...]
    """Library folders of the same."""
    cutlass_includes: tuple[Path, ...]
    extra_roots: tuple[Path, ...]
    """Folders of a compiler that lives outside /usr."""
    identity: str
    """Hex digest over all that decides what comes out of these compilers."""
    no_cuda: MissingCompiler | None = field(default=None, compare=False)
    """Why CUDA can't be compiled here, where it can't."""

    @property
    def nvcc(self) -> Path:
        """The CUDA compiler; raises MissingCompiler."""
        if self.cuda_home is None or self.cuda is None:
            raise self.no_cuda or MissingCompiler("nvcc", "no CUDA compiler")
        return self.cuda_home / "bin" / "nvcc"

    @property
    def foreign_cuda(self) -> str | None:
        """The toolkit's CUDA where its major version is not that of torch's: its runtime is then another one."""
        own = _cuda_of(self.nvcc_version)
        return own if own and self.torch_cuda and _major(own) != _major(self.torch_cuda) else None

    def flags(self, with_cuda: bool) -> Flags:
        """Torch's flags; raises MissingCompiler for CUDA where there is none."""
        if not with_cuda:
            return self.cpu
        if self.cuda is None:
            raise self.no_cuda or MissingCompiler("nvcc", "no CUDA compiler")
        return self.cuda

    def environment(self, scratch: Path) -> dict[str, str]:
        """The whole environment of a compiler, with `scratch` for its temporary files."""
        path = [str(self.cxx.parent), "/usr/bin", "/bin"]
        if self.cuda_home is not None:
            path.insert(0, str(self.cuda_home / "bin"))
        return {"PATH": ":".join(dict.fromkeys(path)), "TMPDIR": str(scratch), "LC_ALL": "C", "HOME": str(scratch)}

    def header_roots(self) -> list[Path]:
        """Folders that an include path of a request may lie in."""
        roots = [self.torch_root / "include", *self.wheel_includes, *self.cutlass_includes]
        if self.cuda_home is not None:
            roots.append(self.cuda_home)
        return roots

    def library_roots(self) -> list[Path]:
        """Folders that a library path of a request may lie in."""
        roots = [self.torch_root / "lib", *self.wheel_libraries, Path("/usr/lib"), Path("/lib")]
        if self.cuda_home is not None:
            roots.append(self.cuda_home)
        return roots

    def mounts(self) -> tuple[Mount, ...]:
        """What a compiler may see of this machine."""
        folders = [Path(folder) for folder in _SYSTEM]
        folders += [self.torch_root / "include", self.torch_root / "lib", Path(sysconfig.get_path("include"))]
        folders += [*self.wheel_includes, *self.wheel_libraries, *self.cutlass_includes, *self.extra_roots]
        if self.cuda_home is not None and self.cuda_home != Path("/usr"):
            folders += _cuda_folders(self.cuda_home)
        return visible(folders)


def visible(folders: list[Path]) -> tuple[Mount, ...]:
    """Mounts under which each folder or file is found by its name, links included; what is missing is left out."""
    wanted: list[Path] = []
    for folder in folders:
        link = folder
        while link.is_symlink() and link not in wanted:
            wanted.append(link)
            link = Path(os.path.normpath(link.parent / link.readlink()))
        wanted += [link, folder.resolve()]
    mounts: dict[Path, Mount] = {}
    for path in sorted(dict.fromkeys(wanted), key=lambda path: len(path.parts)):
        inside = any(above in mounts and not above.is_symlink() for above in path.parents)
        if path.exists() and not inside:
            mounts[path] = Mount(source=path)
    return tuple(mounts.values())


def _cuda_folders(home: Path) -> list[Path]:
    if home.name.startswith("cuda") or home.resolve().name.startswith("cuda"):
        return [home]
    # A conda environment is a CUDA home too; the rest of it is nobody's business.
    return [home / part for part in ("bin", "lib", "lib64", "include", "nvvm", "targets", "libexec")]


_LOCK = threading.Lock()


def discover() -> Toolchain:
    """This machine's toolchain, looked for once per process. Raises MissingCompiler where there is no C++ compiler."""
    with _LOCK:
        return _discover()


@functools.lru_cache(maxsize=1)
def _discover() -> Toolchain:
    import torch

    with _quiet_torch():
        from torch.utils import cpp_extension

    cxx = _find_cxx()
    cuda_home, no_cuda = _find_cuda(torch, cpp_extension)
    with _cuda_home_of(cpp_extension, cuda_home):
        cpu = _read_flags(cpp_extension, with_cuda=False)
        cuda = _read_flags(cpp_extension, with_cuda=True) if cuda_home is not None else None
    torch_root = Path(torch.__file__).parent
    cxx_version = _first_line([str(cxx), "--version"])
    nvcc_version = _nvcc_version(cuda_home) if cuda_home is not None else None
    includes, libraries = _nvidia_wheels(torch_root)
    identity = json.dumps(
        [
            *(torch.__version__, torch.version.git_version, _installed_wheels(torch_root)),
            *(sys.implementation.cache_tag, sysconfig.get_config_var("SOABI")),
            *(str(cxx.resolve()), cxx_version, nvcc_version, _template_text(cpu), _template_text(cuda)),
        ]
    )
    return Toolchain(
        cxx=cxx,
        cxx_version=cxx_version,
        cuda_home=cuda_home,
        nvcc_version=nvcc_version,
        torch_version=str(torch.__version__),
        torch_cuda=torch.version.cuda,
        torch_root=torch_root,
        cpu=cpu,
        cuda=cuda,
        wheel_includes=includes if cuda_home is not None else (),
        wheel_libraries=libraries if cuda_home is not None else (),
        cutlass_includes=_find_cutlass(),
        extra_roots=_compiler_roots(cxx),
        identity=hashlib.sha256(identity.encode()).hexdigest(),
        no_cuda=no_cuda,
    )


@contextlib.contextmanager
def _quiet_torch() -> Iterator[None]:
    # cpp_extension warns on import that there is no GPU (torch 2.6 by print); a machine that only compiles is no reason
    # for a warning.
    logger = logging.getLogger("torch.utils.cpp_extension")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _cuda_home_of(cpp_extension: Any, home: Path | None) -> Iterator[None]:
    # torch guesses its CUDA home from where `nvcc` lies in PATH, which is wrong where that is a wrapper script.
    # And without a GPU it can't name an architecture; that is the plan's to choose.
    before = cpp_extension.CUDA_HOME, cpp_extension._get_cuda_arch_flags
    cpp_extension.CUDA_HOME = None if home is None else str(home)
    cpp_extension._get_cuda_arch_flags = lambda *_: []
    try:
        yield
    finally:
        cpp_extension.CUDA_HOME, cpp_extension._get_cuda_arch_flags = before


def _find_cxx() -> Path:
    wanted = shlex.split(os.environ.get("CXX", "c++"))[:1] or ["c++"]
    found = shutil.which(wanted[0]) or shutil.which("g++")
    if found is None:
        raise MissingCompiler(
            "g++",
            f"There is no C++ compiler on this machine ({wanted[0]} is not in PATH): install g++ "
            "(Debian, Ubuntu: apt-get install g++), or set CXX to one.",
        )
    return Path(found)


def _find_cuda(torch: Any, cpp_extension: Any) -> tuple[Path | None, MissingCompiler | None]:
    if torch.version.cuda is None:
        return None, MissingCompiler(
            "torch with CUDA",
            f"The installed torch {torch.__version__} is built without CUDA, so CUDA sources can't be compiled "
            "against it: install a CUDA build of torch (pip install torch from the default index on Linux).",
        )
    found = [cpp_extension.CUDA_HOME, _nvcc_top(), "/usr/local/cuda", f"/usr/local/cuda-{torch.version.cuda}", "/usr"]
    for candidates in ([os.environ.get("CUDA_HOME")], [os.environ.get("CUDA_PATH")], found):
        if homes := [Path(home) for home in dict.fromkeys(candidates) if home and _is_toolkit(Path(home))]:
            # Of several the first that has torch's own runtime.
            return next((home for home in homes if _fits(home, torch.version.cuda)), homes[0]), None
    return None, MissingCompiler(
        "nvcc",
        f"There is no CUDA toolkit on this machine (nvcc and cuda_runtime.h were looked for in CUDA_HOME, PATH and "
        f"/usr/local/cuda): install the CUDA toolkit {torch.version.cuda}, or set CUDA_HOME to where it is.",
    )


def _is_toolkit(home: Path) -> bool:
    return (home / "bin" / "nvcc").exists() and (home / "include" / "cuda_runtime.h").exists()


def _fits(home: Path, cuda: str) -> bool:
    return _major(_cuda_of(_nvcc_version(home)) or "") == _major(cuda)


def _cuda_of(nvcc_version: str | None) -> str | None:
    """`13.0`, from the last line of what nvcc says of its version."""
    match = re.search(r"cuda_(\d+\.\d+)", nvcc_version or "")
    return match[1] if match else None


def _major(version: str) -> str:
    return version.partition(".")[0]


def _nvcc_top() -> str | None:
    """The toolkit that the `nvcc` of PATH belongs to, as it says itself: in PATH may lie a wrapper or a link."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return None
    try:
        said = subprocess.run(
            [nvcc, "--dryrun", "-E", "-x", "cu", "/dev/null"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    for line in said.stderr.splitlines():
        if line.startswith("#$ TOP="):
            return os.path.realpath(line.removeprefix("#$ TOP=").strip())
    return None


def _nvcc_version(home: Path) -> str:
    said = subprocess.run([str(home / "bin" / "nvcc"), "--version"], capture_output=True, text=True, timeout=60).stdout
    return said.strip().splitlines()[-1] if said.strip() else "unknown"


def _first_line(argv: list[str]) -> str:
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout
    return said.splitlines()[0] if said else "unknown"


def _read_flags(cpp_extension: Any, *, with_cuda: bool) -> Flags:
    """The flags that torch itself would use, from the ninja file that it writes."""
    common = {"with_cuda": with_cuda, "verbose": False, "is_standalone": False}
    ldflags = _call(cpp_extension._prepare_ldflags, common | {"extra_ldflags": [_LDFLAG]})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "build.ninja"
        _call(
            cpp_extension._write_ninja_file_to_build_library,
            common
            | {"path": str(path), "name": _NAME, "sources": ["main.cpp", "cuda.cu"] if with_cuda else ["main.cpp"]}
            | {"extra_cflags": [_CFLAG], "extra_cuda_cflags": [_CUDA_FLAG], "extra_ldflags": ldflags},
        )
        lines = path.read_text().splitlines()
    said = {key.strip(): value for key, _, value in (line.partition(" = ") for line in lines) if value}
    return Flags(
        cxx=_split(shlex.split(said["cflags"]), _CFLAG),
        nvcc=_split(shlex.split(said["cuda_cflags"]), _CUDA_FLAG) if with_cuda else None,
        link=_split(shlex.split(said["ldflags"]), _LDFLAG),
    )


def _call(function: Any, values: Mapping[str, object]) -> Any:
    """Call a function of torch's whose parameters differ from version to version; what is not named is empty or off."""
    arguments: dict[str, object] = {}
    for name in inspect.signature(function).parameters:
        arguments[name] = values.get(name, False if name.startswith("with_") else [])
    return function(**arguments)


def _split(flags: list[str], marker: str) -> FlagTemplate:
    at = flags.index(marker)
    return FlagTemplate(before=tuple(flags[:at]), after=tuple(flags[at + 1 :]))


def _template_text(flags: Flags | None) -> object:
    if flags is None:
        return None
    parts = (flags.cxx, flags.nvcc, flags.link)
    return [[*part.before, "", *part.after] for part in parts if part is not None]


def _nvidia_wheels(torch_root: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    base = torch_root.parent / "nvidia"
    includes = tuple(sorted(base.glob("*/include"))) if base.is_dir() else ()
    libraries = tuple(sorted(base.glob("*/lib"))) if base.is_dir() else ()
    return includes, libraries


def _installed_wheels(torch_root: Path) -> list[str]:
    """Names and versions of the nvidia packages beside torch, whose headers a source may include."""
    return sorted(path.name for path in torch_root.parent.glob("nvidia_*.dist-info"))


def _find_cutlass() -> tuple[Path, ...]:
    """Include folders of CUTLASS: CUTLASS_PATH, or the `nvidia-cutlass` wheel."""
    roots = [Path(os.environ["CUTLASS_PATH"])] if os.environ.get("CUTLASS_PATH") else []
    spec = importlib.util.find_spec("cutlass_library")
    if spec is not None and spec.submodule_search_locations:
        roots.append(Path(next(iter(spec.submodule_search_locations))) / "source")
    folders = [root / part for root in roots for part in ("include", "tools/util/include")]
    return tuple(folder for folder in folders if folder.is_dir())


def _compiler_roots(cxx: Path) -> tuple[Path, ...]:
    """Folders outside the system's that the C++ compiler reads: its own installation, its headers."""
    real = cxx.resolve()
    if str(real).startswith(("/usr/bin/", "/bin/")):
        return ()
    said = subprocess.run([str(cxx), "-E", "-x", "c++", "-v", "/dev/null"], capture_output=True, text=True, timeout=60)
    folders = [
        Path(line.strip()) for line in said.stderr.splitlines() if line.startswith(" /") and " " not in line.strip()
    ]
    prefix = real.parent.parent
    own = [prefix / part for part in ("bin", "lib", "lib64", "libexec", "include")]
    outside = [
        folder
        for folder in (*folders, *own)
        if folder.is_dir() and not str(folder).startswith(("/usr/lib", "/usr/include"))
    ]
    return tuple(dict.fromkeys(outside))
