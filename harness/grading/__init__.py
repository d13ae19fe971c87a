"""One grading from load to verdict: its stages in order, its workers, its builds."""
