"""The problem itself is tested: whether a grading against it can tell right from wrong.

run.py        `verify`: the order in which things are looked at
findings.py   what comes out: findings, figures, and the meaning of every code
subject.py    one workload of a problem with its reference ready to be called

form.py       the folder: statement, default workloads
repeats.py    one seed, one result; another seed, another input
answers.py    trivial answers (trivial.py makes them), each of which the comparison must refuse
moves.py      each input and each parameter moves the output
room.py       how much room the tolerance leaves an honest order of sums
floors.py     the stated floor against the tensors that there are, and against times
cost.py       what a call of the reference takes, against the limits
examples.py   the submissions of expected.toml, graded
"""
