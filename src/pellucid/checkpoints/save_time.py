"""Estimate how long a checkpoint takes to save, by writing a small part of it.

Nothing stays on the disk.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from pathlib import Path

from pellucid.checkpoints.files import Checkpoint

#: At most this much is written; a larger checkpoint takes proportionally longer.
_TRIED_BYTES = 2**24
#: The number of files and folders of a checkpoint that are synchronised with the disk.
_FILES = 8


def seconds_to_save(folder: Path, checkpoint: Checkpoint) -> float:
    """The seconds that a checkpoint will take in `folder`, including checksums.

    0 if nothing can be written there: then saving will raise the error.
    """
    groups = (checkpoint.model, checkpoint.optimiser, checkpoint.random)
    n_bytes = sum(t.numel() * t.element_size() for group in groups for t in group.values())
    try:
        waiting = _time_write(folder, b"")
        content = os.urandom(min(n_bytes, _TRIED_BYTES))
        writing = max(0.0, _time_write(folder, content) - waiting)
    except OSError:
        return 0.0
    return _FILES * waiting + writing * n_bytes / max(1, len(content))


def _time_write(folder: Path, content: bytes) -> float:
    """The seconds to write a temporary file to the disk and to compute its checksum."""
    started = time.perf_counter()
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        hashlib.sha256(content)
        return time.perf_counter() - started
