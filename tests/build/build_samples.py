"""Small extensions that compile in a second, and where the larger samples lie."""

from __future__ import annotations

from pathlib import Path

from harness.build import ExtensionRequest

CORPUS = Path(__file__).parent / "corpus"

MODULE = r"""
#include <Python.h>
%(before)s
static PyObject* answer(PyObject*, PyObject*) { return PyLong_FromLong(%(value)s); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "%(name)s", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_%(name)s() { return PyModule_Create(&module); }
"""
"""A Python module without torch and pybind11: it compiles in a fraction of a second."""


def tiny(
    name: str = "tiny", *, before: str = "", value: str = "35", cuda: str = "", **more: object
) -> ExtensionRequest:
    """A request that builds fast: no torch headers, one function `answer`."""
    text = MODULE % {"before": before, "value": value, "name": name}
    return ExtensionRequest.model_validate(
        {
            "kind": "load_inline",
            "name": name,
            "cpp_sources": [text],
            "cuda_sources": [cuda] if cuda else [],
            "no_implicit_headers": True,
            **more,
        }
    )
