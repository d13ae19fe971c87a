"""An agent: takes submissions from a server over HTTP, grades each in a process of its own, reports.

server <--HTTP-- link <-- loop --pipe--> grading process --> harness.grade
"""
