"""A run on disk: its folder, records and seal, and the `Run` that opening it gives.

Must not know: objectives.
"""

from pellucid.old_words import take_old_words as _take_old_words
from pellucid.saved_runs.folder import RunFolder, existing_folder
from pellucid.saved_runs.load import Run, load
from pellucid.saved_runs.records import attach, read_events
from pellucid.saved_runs.requirements import Kind, kind_of

__all__ = [
    "Kind",
    "Run",
    "RunFolder",
    "attach",
    "existing_folder",
    "kind_of",
    "load",
    "read_events",
]

_take_old_words(__name__, globals())
