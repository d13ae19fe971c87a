"""The metrics that Nsight Compute is asked for, by the name that the rest of the package uses.

Names as of Nsight Compute for compute capability 7.0 and newer (`ncu --query-metrics --chip gh100` lists them). A
metric that a chip lacks is left empty there, and what is made from it is then missing in the profile.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal["sum", "mean"]
"""How launches of one kernel are put together: added up, or averaged, weighted by time."""

_GLOBAL = "pipe_lsu_mem_global_op"
METRICS: dict[str, str] = {
    "time_ns": "gpu__time_duration.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "dram_throughput": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "memory_throughput": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "compute_throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "l2_throughput": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_hit_rate": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_rate": "lts__t_sector_hit_rate.pct",
    "load_sectors": f"l1tex__t_sectors_{_GLOBAL}_ld.sum",
    "load_requests": f"l1tex__t_requests_{_GLOBAL}_ld.sum",
    "store_sectors": f"l1tex__t_sectors_{_GLOBAL}_st.sum",
    "store_requests": f"l1tex__t_requests_{_GLOBAL}_st.sum",
    # By instruction: those that the addresses of a warp lie in, and those that as many bytes side by side would.
    "touched_sectors": "memory_l2_theoretical_sectors_global",
    "ideal_sectors": "memory_l2_theoretical_sectors_global_ideal",
    "local_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "local_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    "shared_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "occupancy_limit": "sm__maximum_warps_per_active_cycle_pct",
    "limit_blocks": "launch__occupancy_limit_blocks",
    "limit_registers": "launch__occupancy_limit_registers",
    "limit_shared_memory": "launch__occupancy_limit_shared_mem",
    "limit_threads": "launch__occupancy_limit_warps",
    "issue_rate": "smsp__issue_active.avg.per_cycle_active",
    "threads_per_instruction": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "tensor_use": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "tensor_instructions": "sm__inst_executed_pipe_tensor.sum",
    "fma_use": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
}
STALLS = (
    *("long_scoreboard", "short_scoreboard", "barrier", "lg_throttle", "mio_throttle", "math_pipe_throttle"),
    *("tex_throttle", "wait", "membar", "drain", "no_instruction", "branch_resolving", "sleeping"),
)
"""Reasons for which a warp waits; docs/profile.md says what each is."""
METRICS |= {f"stall_{name}": f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio" for name in STALLS}

PERCENT = frozenset(name for name, metric in METRICS.items() if "pct" in metric.rpartition(".")[2] or "_pct" in metric)
"""Those that come in percent."""

_SUMS = (
    *("time_ns", "dram_read_bytes", "dram_write_bytes", "load_sectors", "load_requests", "store_sectors"),
    *("store_requests", "local_load_sectors", "local_store_sectors", "shared_wavefronts", "bank_conflicts"),
    *("touched_sectors", "ideal_sectors", "tensor_instructions"),
)


def kind_of(name: str) -> Kind:
    """How values of several launches become one."""
    return "sum" if name in _SUMS else "mean"
