"""A grader of GPU kernels: hand it a problem and a submission, get a verdict with its evidence."""
