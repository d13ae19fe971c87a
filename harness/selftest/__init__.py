"""The corpus of attacks and of honest code that resembles them, and what the grader makes of it.

corpus.py    the tables: which file, which problem, how it must end
running.py   gradings of many entries, several at once
ending.py    what an ending means: caught, missed, a false alarm
summary.py   the same by class
"""
