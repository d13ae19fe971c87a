"""Hints in a submission's text are found where they are code, and not where they are words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.audit.static import findings, warnings


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("import gc", "static.gc"),
        ("from ctypes import CDLL", "static.ctypes"),
        ("import sys as s\ns._getframe(1)", "static.frames"),
        ("from inspect import currentframe as here\nhere()", "static.frames"),
        ("import socket", "static.network"),
        ("import threading", "static.threads"),
        ("import subprocess", "static.process"),
        ("import os\nos.environ['A'] = '1'", "static.environment"),
        ("import torch\ntorch.cuda.synchronize = lambda: None", "static.patched"),
        ("import torch\nsetattr(torch.cuda, 'Event', None)", "static.patched"),
        ("import time\ntime.perf_counter = None", "static.patched"),
        ("import torch.utils.cpp_extension as e\ne.load_inline = None", "static.patched"),
        ("import torch\ntorch.backends.cuda.matmul.allow_tf32 = True", "static.precision_switch"),
        ("from torch.backends import cudnn\ncudnn.allow_tf32 = True", "static.precision_switch"),
        ("import torch\ntorch.set_float32_matmul_precision('high')", "static.precision_switch"),
        ("cache = {}\ndef f(x):\n    cache[x.data_ptr()] = 1", "static.pointer_key"),
        ("cpp = '''\n\nvoid f() { cudaEventRecord(e); }'''", "static.native_events"),
        ("cpp = 'void* f = dlsym(0, name);'", "static.native_symbols"),
        ("cpp = 'mprotect(page, 4096, 7);'", "static.native_memory"),
        ("cpp = 'std::thread worker(run);'", "static.threads"),
        ("exec(text)", "static.generated_code"),
    ],
)
def test_it_is_found(source: str, code: str) -> None:
    assert code in {finding.code for finding in findings(source)}


@pytest.mark.parametrize(
    "source",
    [
        "# import gc, sys._getframe, ctypes",
        "print('the stream is on its own thread')",
        "def gc(x):\n    return x\ngc(1)",
        "class A:\n    def f(self):\n        self.time = 1\n        self.cache = {}",
        "cpp = 'auto s = at::cuda::getCurrentCUDAStream(); int blockIdx_lock = 3; // thread'",
        "import torch, math, os\nos.environ.get('HOME')\ntorch.cuda.synchronize()",
        "x.eval()",
    ],
)
def test_words_are_no_findings(source: str) -> None:
    assert findings(source) == []


def test_a_warning_names_the_line() -> None:
    (warning,) = warnings("import torch\n\nimport gc\nimport gc\n")
    assert warning.code == "static.gc"
    assert warning.evidence == {"lines": [3, 4]}
    assert warning.message.startswith("Line 3 ")


@given(st.text())
def test_any_text_is_read(source: str) -> None:
    warnings(source)


def test_text_that_is_nested_too_deeply_is_read() -> None:
    assert findings("x = " + "(" * 5000 + ")" * 5000) == []
    assert findings("import gc\nx = " + "-" * 3000 + "1") in ([], findings("import gc"))
