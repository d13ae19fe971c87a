"""A library whose initialiser replaces the worker's clock by way of Python's C interface."""

import ctypes

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <Python.h>
static PyObject* plain = nullptr;
static PyObject* tenth(PyObject*, PyObject*) {
    PyObject* now = PyObject_CallNoArgs(plain);
    PyObject* ten = PyLong_FromLong(10);
    PyObject* result = PyNumber_FloorDivide(now, ten);
    Py_DECREF(now);
    Py_DECREF(ten);
    return result;
}
static PyMethodDef method = {"perf_counter_ns", tenth, METH_NOARGS, nullptr};
struct Patch {
    Patch() {
        PyGILState_STATE state = PyGILState_Ensure();
        PyObject* time = PyImport_ImportModule("time");
        plain = PyObject_GetAttrString(time, "perf_counter_ns");
        PyObject_SetAttrString(time, "perf_counter_ns", PyCFunction_New(&method, nullptr));
        PyGILState_Release(state);
    }
} patch;
"""
path = load_inline(name="patched_from_native", cpp_sources=SOURCE, is_python_module=False, no_implicit_headers=True)
library = ctypes.PyDLL(path)


class ModelNew(nn.Module):
    def forward(self, x):
        for _ in range(8):
            x = torch.sin(2.0 * x + 0.5)
        return x
