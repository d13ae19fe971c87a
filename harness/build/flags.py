"""Which compiler and linker flags a submission may pass, by what they mean.

A flag is a string that torch would give to a shell; it is split as a shell splits words, and each word must be one
that is known and harmless (flag_tables.py). Everything else is refused by name: what loads code into the compiler
(`-fplugin`, `-B`, `-specs`, `-wrapper`, `-ccbin`), reads flags from a file (`@file`, `--options-file`), writes
elsewhere (`-o`, `-save-temps`, `--keep`), or talks past the driver (`-Wl,-T`, `-Wp,`, `-Xlinker`).
"""

from __future__ import annotations

import errno
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.build import flag_tables as tables

ALLOWED = (
    "optimisation (-O, -f... of code generation, -m... of the instruction set, --use_fast_math, -fmad, -ftz, ...), "
    "defines (-D, -U), the language standard (-std), register limits (-maxrregcount), line info (-lineinfo, -g), "
    "warnings (-W..., -w, -diag-suppress), ptxas options (-Xptxas -v, -O, -dlcm, ...), the architecture "
    "(-arch, -gencode), "
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
    try:
        real = Path(path).resolve()
    except (OSError, RuntimeError):  # links that go in circles
        return False
    try:
        real.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:  # from Python 3.13 on, such links are first seen here
            return False
    return any(real == root.resolve() or root.resolve() in real.parents for root in roots)


def include_path(path: str, where: str, roots: Roots) -> str:
    """An include folder as it is passed on: one of the request's own, or one of the toolkit's."""
    flag = f"-I{path}"
    if not path.strip():
        raise FlagNotAllowed(flag, where, "its path is missing")
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
        elif word.startswith("-l") and tables.LIBRARY.fullmatch(word[2:]):
            continue  # Compiling needs no library; torch's compilers ignore it just so.
        elif tables.HOST.fullmatch(word):
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
            if not tables.LIBRARY.fullmatch(word[2:]):
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
        elif (part.startswith("-l") and tables.LIBRARY.fullmatch(part[2:])) or tables.LINKER.fullmatch(part):
            kept.append(part)
        else:
            raise FlagNotAllowed(word, where)
    return ["-Wl," + ",".join(kept)] if kept else []


def nvcc_flags(flags: tuple[str, ...], where: str, roots: Roots) -> list[str]:
    """Checked flags for nvcc. Raises FlagNotAllowed."""
    out: list[str] = []
    queue = iter(_words(flags, where))
    for word in queue:
        out += _nvcc_word(word, queue, where, roots)
    return out


def _nvcc_word(word: str, queue: Iterator[str], where: str, roots: Roots) -> list[str]:
    name, equals, value = word.lstrip("-").partition("=")
    if not word.startswith("-"):
        raise FlagNotAllowed(word, where)
    if name in ("Xcompiler", "compiler-options"):
        given = value if equals else next(queue, "")
        words = _words(tuple(given.split(",")), where)
        return [piece for one in _host_words(words, where, roots) for piece in ("-Xcompiler", one)]
    if name in ("Xptxas", "ptxas-options"):
        return _passed("-Xptxas", value if equals else next(queue, ""), tables.PTXAS, word, where)
    if name == "Xcudafe":
        return _passed("-Xcudafe", value if equals else next(queue, ""), tables.CUDAFE, word, where)
    if word in ("-I", "-isystem", "--include-path", "--system-include"):
        return [word, include_path(next(queue, ""), where, roots)]
    if word.startswith("-I"):
        return [f"-I{include_path(word[2:], where, roots)}"]
    if word in ("-D", "-U"):
        word += next(queue, "")
    if word.startswith("-l") and tables.LIBRARY.fullmatch(word[2:]):
        return []  # nvcc -c has no use for libraries, and torch's says nothing of it.
    if tables.NVCC.fullmatch(word):
        return [word]
    # nvcc hands these to the C++ compiler, or refuses them: torch's behaviour, and the solver's to see.
    if tables.HOST_CODE.fullmatch(word) and not word.startswith("-O"):
        return [word]
    values = tables.NVCC_VALUES | tables.NVCC_ARCHITECTURES
    if name in values:
        given = value if equals else next(queue, "")
        if re.fullmatch(values[name], given):
            return [word] if equals else [word, given]
        raise FlagNotAllowed(word if equals else f"{word} {given}".strip(), where)
    raise FlagNotAllowed(word, where)


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
