"""Make this checkout ready to run: an environment with everything in it, or a sentence that says what is missing.

    prepare.py FOLDER    make or update the environment in FOLDER; quick when nothing has changed
    prepare.py           use this interpreter as it is, and only check that it has what is needed

Runs under any Python 3, so that an old one gets a sentence and not a syntax error.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = (
    *("torch", "numpy", "pydantic", "typer", "rich", "platformdirs", "psutil", "setuptools"),
    *(
        "fastapi",
        "uvicorn",
        "sqlalchemy",
        "alembic",
        "psycopg",
        "jinja2",
        "python_multipart",
        "prometheus_client",
        "httpx",
    ),
    *("pytest", "pytest_timeout", "hypothesis", "ruff", "mypy"),
)


def main():
    """Returns an exit code."""
    missing = wrong_python() or no_compiler()
    if missing is None:
        missing = prepare(Path(sys.argv[1])) if len(sys.argv) > 1 else missing_modules()
    if missing is not None:
        print("prepare: " + missing, file=sys.stderr)
        return 1
    return 0


def wrong_python():
    """A sentence, or None when this Python will do."""
    if sys.version_info >= (3, 11):  # noqa: UP036 - older ones are what this looks for
        return None
    version = ".".join(map(str, sys.version_info[:3]))
    return "Python 3.11 or newer is needed and this is {}; name another one: make PYTHON=python3.12".format(version)  # noqa: UP032


def no_compiler():
    """A sentence, or None when there is a C++ compiler: submissions are compiled, on the CPU too."""
    wanted = os.environ.get("CXX")
    if any(shutil.which(name) for name in ([wanted.split()[0]] if wanted else ["g++", "c++", "clang++"])):
        return None
    if wanted:
        return f"the C++ compiler that CXX names, {wanted}, is not there; correct CXX or unset it."
    return "there is no C++ compiler; install one (Debian, Ubuntu: apt-get install g++)."


def missing_modules():
    """A sentence, or None when this interpreter has every package."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if not absent:
        return None
    return f"{sys.executable} lacks {', '.join(absent)}; install them, or leave VENV as it is to get an environment."


def prepare(venv):
    """Make or update the environment; a sentence, or None when it is ready."""
    stamp, wanted = venv / ".prepared.json", fingerprint()
    python = venv / "bin" / "python"
    if python.exists() and stamp.is_file() and stamp.read_text() == wanted:
        return None
    print(f"prepare: installing into {venv}; torch is large, the first time takes some minutes", file=sys.stderr)
    if not usable(python):
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], stdout=2, check=False)
        if made.returncode != 0:
            return "the environment can't be made; install venv (Debian, Ubuntu: apt-get install python3-venv)."
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--editable", f"{ROOT}[dev]"]
    if subprocess.run(pip, stdout=2, check=False).returncode != 0:
        return (
            "pip could not install the packages, see above; without a network, use an interpreter that has them: "
            "make VENV= PYTHON=..."
        )
    # Written last: an installation that was cut short is done again.
    stamp.write_text(wanted)
    return None


def fingerprint():
    """What an environment depends on: when it changes, the environment is brought up to date."""
    packages = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    return json.dumps({"packages": packages, "python": sys.version, "root": str(ROOT)})


def usable(python):
    """Whether an environment is there whose Python still starts and is new enough."""
    check = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([str(python), "-c", check], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
