"""State to files and back: atomic, checksummed, never unpickled. Knows no loop and no model."""

from pellucid.checkpoints.atomic import write_bytes, write_folder, write_text
from pellucid.checkpoints.files import (
    FILES,
    Checkpoint,
    load,
    load_model_tensors,
    load_optimiser,
    save,
    save_tensors,
    verify,
)
from pellucid.checkpoints.retention import Shelf

__all__ = [
    "FILES",
    "Checkpoint",
    "Shelf",
    "load",
    "load_model_tensors",
    "load_optimiser",
    "save",
    "save_tensors",
    "verify",
    "write_bytes",
    "write_folder",
    "write_text",
]
