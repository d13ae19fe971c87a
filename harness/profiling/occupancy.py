"""How many warps of a kernel an SM holds at once, from the launch and the device's limits; pure arithmetic.

Each resource is handed out in portions (CUDA's occupancy calculator has them): registers to a warp by 256, warps by the
SM's four partitions, shared memory to a block by 128 bytes beside what the system keeps for each block. The resource
that runs out first limits the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.clock.architectures import blocks_per_sm
from harness.profiling.result import Limiter, Occupancy
from harness.report import DeviceInfo

_REGISTERS, _PARTITIONS, _SHARED = 256, 4, 128
_REGISTERS_PER_SM = 65536
"""Of every architecture that torch supports."""


def occupancy(
    device: DeviceInfo, grid: Sequence[int], block: Sequence[int], registers: int, shared_bytes: int
) -> Occupancy | None:
    """None where the device's limits are not known, or the launch can't be one."""
    threads, blocks = math.prod(block), math.prod(grid)
    warp, most_threads, sms = device.warp_size or 32, device.max_threads_per_sm, device.sms
    if not (most_threads and sms and threads and blocks and len(block) == len(grid) == 3):
        return None
    warps = -(-threads // warp)
    limits: dict[Limiter, int] = {"threads": most_threads // warp // warps}
    if (most_blocks := blocks_per_sm(device.compute_capability)) is not None:
        limits["blocks"] = most_blocks
    if registers:
        a_warp = -(-registers * warp // _REGISTERS) * _REGISTERS
        held = (device.registers_per_sm or _REGISTERS_PER_SM) // a_warp // _PARTITIONS * _PARTITIONS
        limits["registers"] = held // warps
    if device.shared_memory_per_sm_bytes:
        optin = device.shared_memory_per_block_optin_bytes or device.shared_memory_per_sm_bytes
        kept = max(0, device.shared_memory_per_sm_bytes - optin)
        a_block = -(-(shared_bytes + kept) // _SHARED) * _SHARED
        if a_block:
            limits["shared memory"] = device.shared_memory_per_sm_bytes // a_block
    at_once = min(limits.values())
    if at_once <= 0:
        return None
    return Occupancy(
        warps_per_sm=at_once * warps,
        share=min(1.0, at_once * warps / (most_threads // warp)),
        blocks_per_sm=at_once,
        limited_by=[name for name, limit in limits.items() if limit == at_once],
        waves=blocks / (at_once * sms),
    )
