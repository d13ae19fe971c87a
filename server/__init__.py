"""The grader over HTTP: submissions come in, agents grade them, a leaderboard shows the best.

    client --POST--> API --row--> store <--claim over HTTP-- agent --process--> harness.grade

Nothing in `harness/` imports this package, except the commands that start it, when they run.
"""
