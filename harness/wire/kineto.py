"""torch's profiler without what torch.profiler adds: that imports torch's compiler first, which takes seconds."""

from __future__ import annotations

import os
from typing import Any


def started(*, on_gpu: bool, with_stack: bool = False) -> Any:
    """A torch.autograd.profiler.profile that is running: of the device alone, or of the host alone with its stacks.

    End it with `__exit__(None, None, None)`, which waits for the device; then there are `function_events` and
    `export_chrome_trace`. Raises RuntimeError and others where drivers or permissions don't let it.
    """
    from torch.autograd.profiler import profile

    # What it logs of itself is for its makers, and would stand between a person's lines.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")

    profiler = profile(
        use_cpu=not on_gpu,
        use_device="cuda" if on_gpu else None,
        use_kineto=True,
        with_stack=with_stack,
        acc_events=True,
    )
    profiler.__enter__()
    return profiler
