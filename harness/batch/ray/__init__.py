"""A Ray cluster as an executor.

    RayExecutor --link--> bridge: Ray's driver --actor for each GPU--> GradingSlot --lane--> a grading
                                               --task on a core------> build, whose artifacts come back by key

executor.py   ours: starts the bridge, and starts it again when the cluster's head is gone
bridge.py     a process of its own: Ray ends the process of a driver that has lost its head, and that must not be ours
link.py       what the two say to each other
cluster.py    the nodes that grade: found, asked what they are, refused when they differ, given work
shelf.py      which artifacts are in the object store
node.py       what runs on the nodes
facts.py      what has to be the same on all of them
"""
