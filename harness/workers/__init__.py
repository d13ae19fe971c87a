"""The grader's end of a worker: its process, orders to it, and what its answers may be."""
