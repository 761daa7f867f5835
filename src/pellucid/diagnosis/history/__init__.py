"""The history of a training: of a run, and of any loop that was watched."""
