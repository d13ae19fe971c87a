"""A Model Context Protocol server: the grader's tools for a model that writes kernels.

    client --stdio or HTTP--> server.py --> workspace.py: what may be named --> bench.py: done in a process --> words.py

workspace.py   problems by name, submissions as text or from below one folder
beneath.py     a file below a folder, read without looking anywhere else
bench.py       gradings, one after another, each in a process that can be ended
words.py       a report, a problem, a device, a leaderboard in as many characters as a model has use for
advice.py      what to try next
server.py      the tools
transport.py   how a client reaches them
"""
