"""A base image out of this machine's own files, for where none can be pulled: a shell, this Python, their libraries.

What pip would download is not in it: tests mount this environment's packages when they run a container.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

import setuptools

_PROGRAMS = ("sh", "mkdir", "chown", "rm", "true", "cat", "ls", "sleep", "env", "ldd")
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_LEFT_OUT = re.compile(
    r"/(site-packages|test|tests|idlelib|tkinter|lib2to3|turtledemo|__pycache__|config-[^/]*)(/|$)|\.a$"
)
_RESOLVED = re.compile(r"(?:=> )?(/\S+) \(0x")


def packages() -> Path:
    """Where this environment's packages are."""
    return Path(setuptools.__file__).parents[1].resolve()


def write_base(path: Path) -> None:
    """A file for `docker import`."""
    base = Path(sys.base_prefix).resolve()
    stdlib = Path(os.__file__).parent.resolve()
    files: dict[str, Path] = {}
    for name in _PROGRAMS:
        found = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
        assert found is not None, f"this machine has no {name}"
        files[f"usr/bin/{name}"] = Path(found).resolve()
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    files[f"usr/bin/{python}"] = (base / "bin" / python).resolve()
    for file in _below(stdlib):
        files[f"usr/lib/{python}/{file.relative_to(stdlib)}"] = file
    # To build our own package with; whatever it needs besides is mounted.
    for package in ("setuptools", "pip"):
        names = (package, f"{package}-{version(package)}.dist-info", "_distutils_hack")
        for file in (file for name in names for file in _below(packages() / name)):
            files[f"usr/lib/{python}/site-packages/{file.relative_to(packages())}"] = file
    torch = packages() / "torch" / "lib"
    linked = [file for file in files.values() if _is_elf(file)] + [
        torch / "libtorch_cpu.so",
        torch / "libtorch_python.so",
    ]
    for library in _libraries(linked):
        outside = library.is_relative_to("/usr") or library.is_relative_to("/lib") or library.is_relative_to("/lib64")
        place = str(library).lstrip("/") if outside else f"usr/lib/{library.name}"
        first, _, rest = place.partition("/")
        files[f"{_LINKS.get(first, first)}/{rest}"] = library.resolve()
    with tarfile.open(path, "w") as tar:
        for name, target in _LINKS.items():
            _add_link(tar, name, target)
        _add_link(tar, "usr/bin/python3", python)
        for name in ("tmp", "etc", "proc", "sys", "dev", "deps", "usr/sbin", "usr/local/bin"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(folder)
        for name, text in (("etc/passwd", "root:x:0:0::/:/bin/sh\n"), ("etc/group", "root:x:0:\n")):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text), 0o644
            tar.addfile(info, io.BytesIO(text.encode()))
        for name, file in sorted(files.items()):
            info = tar.gettarinfo(str(file), name)
            info.uid = info.gid = 0
            info.type, info.linkname = tarfile.REGTYPE, ""  # also what is a hard link here
            info.size = file.stat().st_size
            info.mode = 0o755 if os.access(file, os.X_OK) else 0o644
            with file.open("rb") as data:
                tar.addfile(info, data)


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    tar.addfile(link)


def _below(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*"):
        if file.is_file() and not _LEFT_OUT.search(f"/{file.relative_to(folder)}"):
            yield file


def _is_elf(file: Path) -> bool:
    with file.open("rb") as data:
        return data.read(4) == b"\x7fELF"


def _libraries(files: Iterable[Path]) -> set[Path]:
    """Every library that these files load, by the path that the loader finds it at; torch's own are mounted."""
    told = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
    found = {Path(match) for match in _RESOLVED.findall(told)}
    return {path for path in found if not path.is_relative_to(packages())}
