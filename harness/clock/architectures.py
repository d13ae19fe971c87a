"""What one SM can do in one clock and hold at once, by compute capability: upper bounds that no program passes.

A floor must never be too high, and a library's best product is no upper bound: an honest kernel may be faster. What
the units can do is one. Multiplied by the number of SMs and the highest clock it gives the device's peak.

Sources:

- fp32, fp64 outside tensor cores and special functions: CUDA C++ Programming Guide, "Throughput of Native Arithmetic
  Instructions", results per clock and SM; a multiply-add counts 2.
- tensor cores: the dense (not sparse) peaks of NVIDIA's papers over SMs and boost clock:
  8.0  A100 white paper: 312 TFLOP/s fp16, half of it tf32, 19.5 fp64, with 108 SMs at 1.41 GHz
  8.6  RTX A6000 white paper (GA102): 155 TFLOP/s fp16, half of it tf32, with 84 SMs at 1.80 GHz
  8.9  L40S data sheet (AD102): 362 TFLOP/s fp16, half of it tf32, with 142 SMs at 2.52 GHz
  9.0  H100 white paper: 989 TFLOP/s fp16, half of it tf32, 67 fp64, with 132 SMs at 1.83 GHz
  10.0 HGX B200 data sheet: 2250 TFLOP/s fp16, half of it tf32, 37 fp64, with 148 SMs at 1.86 GHz
  12.0 RTX PRO 6000 Blackwell data sheet: 504 TFLOP/s fp16, half of it tf32, with 188 SMs at 2.62 GHz

- resident blocks: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"

GeForce models of 8.6, 8.9 and 12.0 do half of these when they accumulate in fp32; the full figures hold for them too,
as bounds. fp64 is the larger of what tensor cores and the usual units do.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PerClock:
    """Operations of one SM in one clock, each a field of the problem's floor."""

    fp64_flops: float
    fp32_flops: float
    tf32_flops: float
    fp16_flops: float
    """bf16 alike."""
    special_ops: float
    """exp2, log2, reciprocal, square root, sine: results of the special-function units."""


_PER_CLOCK = {
    "8.0": PerClock(fp64_flops=128, fp32_flops=128, tf32_flops=1024, fp16_flops=2048, special_ops=16),
    "8.6": PerClock(fp64_flops=4, fp32_flops=256, tf32_flops=512, fp16_flops=1024, special_ops=16),
    "8.9": PerClock(fp64_flops=4, fp32_flops=256, tf32_flops=512, fp16_flops=1024, special_ops=16),
    "9.0": PerClock(fp64_flops=256, fp32_flops=256, tf32_flops=2048, fp16_flops=4096, special_ops=16),
    "10.0": PerClock(fp64_flops=128, fp32_flops=256, tf32_flops=4096, fp16_flops=8192, special_ops=16),
    "12.0": PerClock(fp64_flops=4, fp32_flops=256, tf32_flops=512, fp16_flops=1024, special_ops=16),
}


def per_clock(compute_capability: str | None) -> PerClock | None:
    """The row of a compute capability such as `9.0`; None for one that is not listed."""
    return _PER_CLOCK.get(compute_capability or "")


_BLOCKS_PER_SM = {
    **{"7.0": 32, "7.5": 16, "8.0": 32, "8.6": 16, "8.7": 16, "8.9": 24},
    **{"9.0": 32, "10.0": 32, "10.3": 32, "12.0": 24},
}


def blocks_per_sm(compute_capability: str | None) -> int | None:
    """How many blocks an SM holds at once, however small they are; None for one that is not listed."""
    return _BLOCKS_PER_SM.get(compute_capability or "")
