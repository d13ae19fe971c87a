"""The builder: compiles what a submission asks `load_inline` and `load` for, in a sandbox, each content once."""

from harness.build.cache import BuildCache, CacheEntry, CacheItem
from harness.build.diagnostics import Diagnostic, KernelResources
from harness.build.outcome import BuildFailure, BuildLimits, BuildOutcome
from harness.build.request import ExtensionRequest, SourceFile
from harness.build.service import BuildService

__all__ = [
    "BuildCache",
    "BuildFailure",
    "BuildLimits",
    "BuildOutcome",
    "BuildService",
    "CacheEntry",
    "CacheItem",
    "Diagnostic",
    "ExtensionRequest",
    "KernelResources",
    "SourceFile",
]
