"""A file below a folder, read without looking at anything that is not below it.

    path  --part by part, links by hand-->  folder, folder, file

Whoever names a path must not learn from the answer, nor from the time it takes, what there is elsewhere. So a path is
never given to the system as a whole: each part is opened within the folder before it, without following links; what a
link says is taken as more parts; and `..` of the topmost folder, or a path from `/` that does not begin with that
folder's, ends it before anything is looked up.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

_MOST_LINKS = 40
"""As the kernel allows."""
_MOST_FOLDERS = 64
"""Below one another: each takes a descriptor."""
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Outside(Exception):
    """The path leads elsewhere. That is all that is known of it."""


class Unreadable(Exception):
    """There is no such file below the folder, or it can't be read. The message says why, in a few words."""


def read_beneath(root: Path, path: str, most: int, spellings: Sequence[Path] = ()) -> bytes:
    """At most that many bytes of a file below `root`, a folder without links on the way to it.

    `spellings` are further names of `root` that a path from `/` may begin with. Raises Outside and Unreadable.
    """
    todo = _parts(path, tops := (root, *spellings))
    links = 0
    folders: list[int] = []
    try:
        folders.append(os.open(root, _LOOK | os.O_DIRECTORY))
        while todo:
            part = todo.pop()
            if part == "..":
                if len(folders) == 1:
                    raise Outside
                os.close(folders.pop())
                continue
            found = os.open(part, _LOOK, dir_fd=folders[-1])
            folders.append(found)  # whatever it is, it is closed with them
            mode = os.fstat(found).st_mode
            if stat.S_ISLNK(mode):
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, "Too many links")
                target = os.readlink("", dir_fd=found)
                os.close(folders.pop())
                if target.startswith("/"):
                    _close(folders, keep=1)
                todo += _parts(target, tops)
            elif stat.S_ISDIR(mode):
                if len(folders) > _MOST_FOLDERS:
                    raise Unreadable(f"more than {_MOST_FOLDERS} folders deep")
            elif todo:
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            elif stat.S_ISREG(mode):
                return _content(found, most)
            else:
                break
    except ValueError:
        raise Unreadable("no such name can exist") from None
    except OSError as error:
        raise Unreadable(error.strerror or "unreadable") from None
    finally:
        _close(folders, keep=0)
    raise Unreadable("it is not a file")


def _parts(path: str, tops: Sequence[Path]) -> list[str]:
    """What to go through, the last part first. Raises Outside."""
    if not path.startswith("/"):
        return [part for part in reversed(path.split("/")) if part not in ("", ".")]
    parts = PurePosixPath("/" + path.lstrip("/")).parts
    for top in tops:
        if parts[: len(top.parts)] == top.parts:
            return list(reversed(parts[len(top.parts) :]))
    raise Outside


def _content(found: int, most: int) -> bytes:
    """Of the very file that was looked at."""
    with open(os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        return file.read(most)


def _close(folders: list[int], *, keep: int) -> None:
    while len(folders) > keep:
        os.close(folders.pop())
