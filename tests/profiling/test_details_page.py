"""The reader of Nsight Compute's details page, which profiles are held against, on a page written by hand."""

from __future__ import annotations

import csv
import io

import pytest

from benchmarks.ncu_details import mean, read
from benchmarks.profile import apart

HEAD = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size"]
HEAD += ["Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
HEAD += ["Rule Name", "Rule Type", "Rule Description"]
LIGHT = "GPU Speed Of Light Throughput"
UNCOALESCED = (
    "This kernel has uncoalesced global accesses resulting in a total of 88080384 excessive sectors (88% of the total "
    "100663296 sectors). Check the L2 Theoretical Sectors Global Excessive table."
)


def page(*rows: tuple[int, str, str, str, str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(HEAD)
    for number, section, metric, value, rule in rows:
        launch = [number, 1, "python3", "127.0.0.1", "scan(const float *)", 1, 7, "(1, 1, 1)", "(1, 1, 1)", 0, "9.0"]
        writer.writerow([*launch, section, metric, "", value, "SOLBottleneck" if rule else "", "", rule])
    return f"==PROF== Connected to process 1\n{out.getvalue()}"


def test_figures_and_rules_are_read_by_launch():
    one, other = read(
        page(
            (0, LIGHT, "Duration", "1,000", ""),
            (0, LIGHT, "DRAM Throughput", "20.00", ""),
            (0, "SourceCounters", "", "", UNCOALESCED),
            (0, LIGHT, "", "", "Memory is more heavily utilized than Compute: Look at the Memory Workload Analysis"),
            (1, LIGHT, "Duration", "3,000", ""),
            (1, LIGHT, "DRAM Throughput", "60.00", ""),
            (1, LIGHT, "", "", "This kernel exhibits low compute throughput and memory bandwidth utilization"),
        )
    )
    assert (one.bound(), other.bound()) == ("memory", "latency")
    assert one.sector_factor() == pytest.approx(8.0)
    assert other.sector_factor() == 1.0
    assert mean([one, other], LIGHT, "DRAM Throughput") == pytest.approx(50.0)
    assert mean([one, other], LIGHT, "absent") is None


def test_figures_are_apart_by_a_share_of_the_larger():
    assert apart(100.0, 96.0) == pytest.approx(0.04)
    assert apart("memory", "latency") == 1.0
    assert apart(None, 1.0) is None
    assert apart(0.0, 0.0) == 0.0
