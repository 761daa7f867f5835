"""`pellucid.runs.tasks` of 0.1: its names are in `pellucid.tasks`."""

from pellucid.old_names import names_of

__getattr__ = names_of(__name__)
