"""NVIDIA's compute-sanitizer on one call of a submission, its findings as data.

smallest.py   which of the problem's workloads is small enough, and large enough
tool.py       where compute-sanitizer is, and how a worker is run under it
parse.py      what it prints -> records
places.py     a compiler's file and line -> the solver's own
findings.py   records -> findings: each mistake once, and only the submission's
run.py        all of it, for one submission
"""
