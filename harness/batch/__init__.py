"""Many gradings: what is to be graded, in which order, by whom, and what came out.

    problems, submissions --inputs--> Entry --run--> Job --pipeline--> Executor.build, Executor.grade --> Report
                                                      |                                                    |
                                                     key: equal keys are graded once        store: RUN/results.jsonl

problems.py    the problems of a batch, found by the names that submissions use
naming.py      which problem a submission says it answers
inputs.py      submissions from folders and JSONL files, and what can't be used of them
job.py         one grading as content alone, and its key
executor.py    what can build and grade jobs; `local.py` does on this machine, in the processes of `lane.py`, and `ray/`
               on a cluster, both by `doing.py`; `server.py` hands in to a server
pipeline.py    builds ahead, gradings, second tries, never more at once than there is room for
store.py       the results on disk, whole after a kill
run.py         a batch from its entries to its results
statistics.py  pass@k, fast_p, geometric means; summary.py counts with them, page.py and svg.py show them
training.py    the same for a program that asks for rewards; reward.py says what a report is worth
"""
