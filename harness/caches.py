"""Where this machine's caches are: what is in there may be lost at any time, and is made again."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """HARNESS_CACHE_DIR, or the user's own."""
    return Path(os.environ.get("HARNESS_CACHE_DIR") or platformdirs.user_cache_dir("kernel-harness")).absolute()


def keep(path: Path, content: bytes) -> None:
    """Write a file of a cache, for this user alone: a reader sees the old one or the whole new one. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    staged = path.with_suffix(f".{secrets.token_hex(8)}.tmp")
    try:
        staged.write_bytes(content)
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)
