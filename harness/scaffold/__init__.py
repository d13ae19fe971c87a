"""First files of a problem and of a submission, which pass `harness verify` and `harness check` as they are."""
