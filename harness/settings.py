"""Where a server is and with which key: from a flag, the environment, a file, or the default, in this order.

The file is TOML, one line for each setting, in the folder that the system keeps settings in:

    server = "https://server.example"
    key = "kh_..."
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import platformdirs

Origin = Literal["flag", "environment", "file", "default"]
_KEY = re.compile(r"(kh_[0-9a-f]{16}_).+")


class SettingsError(Exception):
    """A settings file that can't be used, or a setting that does not exist. The message says what to do."""


@dataclass(frozen=True)
class Setting:
    """Something that can be set."""

    name: str
    """In the file, and with -- before it as a flag."""
    variable: str
    """Of the environment."""
    default: str | None
    about: str
    secret: bool = False


@dataclass(frozen=True)
class Found:
    """What holds, and why."""

    setting: Setting
    value: str | None
    origin: Origin
    where: str
    """The flag, the variable or the path that it is from; empty for a default."""

    @property
    def shown(self) -> str | None:
        """The value as others may see it."""
        if self.value is None or not self.setting.secret:
            return self.value
        told = _KEY.fullmatch(self.value)
        return f"{told[1]}..." if told else f"({len(self.value)} characters)"


SETTINGS = {
    one.name: one
    for one in (
        Setting("server", "HARNESS_SERVER", "http://127.0.0.1:8000", "the address of the server"),
        Setting("key", "HARNESS_KEY", None, "your key there", secret=True),
    )
}


def settings_path() -> Path:
    """The file, whether or not there is one; HARNESS_CONFIG names another."""
    if named := os.environ.get("HARNESS_CONFIG"):
        return Path(named)
    return Path(platformdirs.user_config_dir("kernel-harness", appauthor=False)) / "config.toml"


def read_file() -> dict[str, str]:
    """What the file sets. Raises SettingsError."""
    path = settings_path()
    try:
        with path.open("rb") as file:
            found = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} can't be read: {error}; mend it or remove it.") from None
    for name, value in found.items():
        if name not in SETTINGS:
            raise SettingsError(f"{path} sets {name!r}, which does not exist; there are {', '.join(SETTINGS)}.")
        if not isinstance(value, str) or not value:
            raise SettingsError(f'{path} sets {name} to what is no text; write {name} = "...".')
    return found


def look_up(name: str, given: str | None = None) -> Found:
    """What a setting is; `given` is the flag's value, None without the flag. Raises SettingsError."""
    setting = SETTINGS[name]
    if given is not None:
        return Found(setting, given, "flag", f"--{name}")
    if told := os.environ.get(setting.variable):
        return Found(setting, told, "environment", setting.variable)
    if name in (in_file := read_file()):
        return Found(setting, in_file[name], "file", str(settings_path()))
    return Found(setting, setting.default, "default", "")


def exposed() -> str | None:
    """One sentence when others on this machine can read a key in the file."""
    path = settings_path()
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    others = mode & (stat.S_IRGRP | stat.S_IROTH)
    if not others or not any(SETTINGS[name].secret for name in read_file()):
        return None
    return f"others can read the key in {path}: chmod 600 {path}"


def check_address(server: str) -> str:
    """A server's address without a slash at its end. Raises SettingsError."""
    try:
        parts = urlsplit(server)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise SettingsError(f"{server} is no address of a server; write it like http://127.0.0.1:8000.")
    return server.rstrip("/")


def change(name: str, value: str | None) -> Path:
    """Set it in the file, or take it out with None. The file is written anew, for its owner only. Raises
    SettingsError."""
    if name not in SETTINGS:
        raise SettingsError(f"there is no setting {name!r}; there are {', '.join(SETTINGS)}.")
    if value is not None and not (value.strip() and value.isprintable()):
        raise SettingsError(f"{name} has to be one line of text.")
    if name == "server" and value is not None:
        check_address(value.strip())
    kept = {other: text for other, text in read_file().items() if other != name}
    if value is not None:
        kept[name] = value.strip()
    path = Path(os.path.realpath(settings_path()))
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            # A JSON string of printable characters is a TOML string as well.
            file.writelines(f"{key} = {json.dumps(kept[key], ensure_ascii=False)}\n" for key in SETTINGS if key in kept)
        os.replace(temporary, path)
    except OSError as error:
        raise SettingsError(f"{path} can't be written: {error.strerror or error}.") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return path
