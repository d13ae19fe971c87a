"""What is accepted ends with one verdict, whatever is killed or hangs: a few moments of benchmarks/server_kills.py."""

from __future__ import annotations

import subprocess
import sys

import pytest
from server_fakes import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(("store", "moments"), [("sqlite", 4), ("postgresql", 6)])
def test_what_is_accepted_ends_with_one_verdict(request: pytest.FixtureRequest, store: str, moments: int):
    if store == "postgresql":
        request.getfixturevalue("postgres")  # skips where there is none; another one is started to be killed
    command = [sys.executable, "-m", "benchmarks.server_kills", "--store", store, "--moments", str(moments)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "wrong: 0" in ran.stdout, "it was not judged"
