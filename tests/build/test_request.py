"""A request is a claim of the worker's: what it may hold, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.build import ExtensionRequest
from harness.build import request as request_module

SMALL = {"kind": "load_inline", "name": "ext", "cpp_sources": ["int f();"]}


def test_the_documented_json_is_taken() -> None:
    text = json.dumps(SMALL | {"functions": {"f": "f"}, "extra_cuda_cflags": ["--use_fast_math"], "with_cuda": None})
    request = ExtensionRequest.model_validate_json(text)
    assert request.cpp_sources == ("int f();",)
    assert request.functions == {"f": "f"}


def test_strings_and_lists_are_taken_as_torch_takes_them() -> None:
    request = ExtensionRequest.model_validate(
        SMALL | {"cpp_sources": "int f();", "cuda_sources": None, "functions": ["f", "g"], "extra_cflags": None}
    )
    assert request.cpp_sources == ("int f();",)
    assert request.cuda_sources == ()
    assert request.functions == {"f": "f", "g": "g"}
    assert ExtensionRequest.model_validate(SMALL | {"functions": "f"}).functions == {"f": "f"}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "download"},
        {"name": ""},
        {"name": "../ext"},
        {"name": "ext; rm"},
        {"name": "e" * 200},
        {"surprise": 1},
        {"cpp_sources": ["x\0y"]},
        {"cpp_sources": ["\ud800"]},
        *({key: ["a\0b"]} for key in ("extra_cflags", "extra_cuda_cflags", "extra_ldflags", "extra_include_paths")),
        {"functions": {"a\0b": "f"}},
        {"functions": {"f": "a\0b"}},
        {"name": "a\0b"},
        {"cuda_arch_list": "9.0\0"},
        {"headers": [{"name": "a\0.h", "text": ""}]},
        {"headers": [{"name": "a.h", "text": "\0"}]},
        {"cpp_sources": ["x"] * 65},
        {"functions": {"f" * 600: "f"}},
        {"extra_cflags": ["-O3"] * 300},
        {"sources": [{"name": "a.cpp", "text": ""}]},
        {"headers": [{"name": "/etc/passwd", "text": ""}]},
        {"headers": [{"name": "a/../../b.h", "text": ""}]},
        {"headers": [{"name": "./b.h", "text": ""}]},
        {"headers": [{"name": "-I.h", "text": ""}]},
        {"headers": [{"name": "a.h", "text": ""}, {"name": "a.h", "text": ""}]},
        {"headers": [{"name": "a", "text": ""}, {"name": "a/b.h", "text": ""}]},
        *({"headers": [{"name": name, "text": ""}]} for name in ("main.cpp", "main.cpp/x", "cuda.cu", "sycl.sycl/a/b")),
    ],
)
def test_what_is_no_request_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ExtensionRequest.model_validate(SMALL | change)


def test_load_needs_sources_and_takes_no_inline_ones() -> None:
    with pytest.raises(ValidationError, match="at least one source"):
        ExtensionRequest.model_validate({"kind": "load", "name": "ext"})
    with pytest.raises(ValidationError, match="load takes sources"):
        ExtensionRequest.model_validate({"kind": "load", "name": "ext", "cpp_sources": ["int f();"]})


def test_generated_names_are_reserved_only_where_files_are_generated() -> None:
    ExtensionRequest.model_validate(SMALL | {"headers": [{"name": "inc/main.cpp", "text": ""}]})
    ExtensionRequest.model_validate({"kind": "load", "name": "ext", "sources": [{"name": "main.cpp", "text": ""}]})


@pytest.mark.parametrize("key", ["extra_cflags", "extra_cuda_cflags", "extra_ldflags", "extra_include_paths"])
def test_flags_are_limited_together(key: str) -> None:
    ExtensionRequest.model_validate(SMALL | {key: ["x" * 8000] * 8})
    with pytest.raises(ValidationError, match="characters together"):
        ExtensionRequest.model_validate(SMALL | {"extra_cflags": ["x" * 8000]} | {key: ["x" * 8000] * 9})


def test_texts_are_limited_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_module, "MAX_TOTAL_CHARS", 10)
    with pytest.raises(ValidationError, match="characters together"):
        ExtensionRequest.model_validate(SMALL | {"cuda_sources": ["0123456789"]})


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_whatever_json_comes_is_taken_or_refused(value: object) -> None:
    for key in ExtensionRequest.model_fields:
        try:
            ExtensionRequest.model_validate_json(json.dumps(SMALL | {key: value}))
        except ValidationError:
            continue
