"""State to files and back: atomic, with checksums, never unpickled.

Must not know: the loop, what the state means.
"""

from pellucid.checkpoints.atomic import write_bytes, write_folder, write_text
from pellucid.checkpoints.files import (
    FILES,
    STATE,
    Checkpoint,
    load,
    load_model_tensors,
    load_optimiser,
    load_state,
    save,
    save_tensors,
    verify,
    write_own,
)
from pellucid.checkpoints.finite import first_non_finite, refuse_non_finite
from pellucid.checkpoints.model_file import ModelFile
from pellucid.checkpoints.progress import SavedProgress, read_progress
from pellucid.checkpoints.retention import Shelf
from pellucid.checkpoints.save_time import seconds_to_save
from pellucid.checkpoints.shares import Place, Shares, describe, read_region
from pellucid.old_names import names_of as _names_of

__all__ = [
    "FILES",
    "STATE",
    "Checkpoint",
    "ModelFile",
    "Place",
    "SavedProgress",
    "Shares",
    "Shelf",
    "describe",
    "first_non_finite",
    "load",
    "load_model_tensors",
    "load_optimiser",
    "load_state",
    "read_progress",
    "read_region",
    "refuse_non_finite",
    "save",
    "save_tensors",
    "seconds_to_save",
    "verify",
    "write_bytes",
    "write_folder",
    "write_own",
    "write_text",
]

__getattr__ = _names_of(__name__)
