"""Many ranks that train one model in somebody else's loop: what they should share, and what not.

Each rank measures some updates, at numbers that all ranks know. It shows the others a few numbers
of each in the store of their group (`pellucid.parallel.collect`), and reads theirs later. Nothing
here waits for another rank while a training runs.
"""
