"""What `make run` does: grade a sample on whatever this machine has.

With a GPU, the CUDA sample at full size. Without one, the C++ sample on the CPU's workload; where there is nvcc, the
CUDA sample is compiled at least.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from harness.cli.main import main as harness
from harness.machine.device import open_device

PROBLEM = "problems/selective_scan"
CUDA_SAMPLE = "submissions/s6_v2.py"
CPU_SAMPLE = "submissions/s6_cpu.py"


def main() -> int:
    """The exit code of the first command that does not end well."""
    device = open_device("auto")
    if device.kind == "cuda":
        return harness(["run", PROBLEM, CUDA_SAMPLE, "--device", device.torch_name])
    print(f"There is no GPU here: grading {CPU_SAMPLE} on the CPU instead, at a smaller size.", file=sys.stderr)
    code = harness(["run", PROBLEM, CPU_SAMPLE, "--device", "cpu"])
    if code == 0 and has_nvcc():
        print(f"nvcc is here: compiling {CUDA_SAMPLE} for an H100 or H200 (sm_90) as well.", file=sys.stderr)
        code = harness(["compile", PROBLEM, CUDA_SAMPLE, "--arch", "9.0"])
    return code


def has_nvcc() -> bool:
    """Whether CUDA can be compiled: nvcc, and a torch that was built with CUDA."""
    import torch
    from torch.utils.cpp_extension import CUDA_HOME

    nvcc = shutil.which("nvcc") or (CUDA_HOME and Path(CUDA_HOME, "bin", "nvcc").exists())
    return bool(nvcc) and torch.version.cuda is not None


if __name__ == "__main__":
    sys.exit(main())
