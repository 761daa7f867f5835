"""How long saving takes on this disk, from writing a little of as much.

Comes in: a folder, a checkpoint. Goes out: seconds. Nothing stays on the disk. It does not know
when it will be saved.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from pathlib import Path

from pellucid.checkpoints.files import Checkpoint

#: So much is written; of more, the rest takes as long in proportion.
_TRIED_BYTES = 2**24
#: Files and folders that a checkpoint makes the disk wait for.
_FILES = 8


def seconds_to_save(folder: Path, checkpoint: Checkpoint) -> float:
    """How long a checkpoint will take in `folder`, checksums included.

    0 where nothing can be written: saving it will say why.
    """
    groups = (checkpoint.model, checkpoint.optimiser, checkpoint.random)
    n_bytes = sum(t.numel() * t.element_size() for group in groups for t in group.values())
    try:
        waiting = _written(folder, b"")
        content = os.urandom(min(n_bytes, _TRIED_BYTES))
        writing = max(0.0, _written(folder, content) - waiting)
    except OSError:
        return 0.0
    return _FILES * waiting + writing * n_bytes / max(1, len(content))


def _written(folder: Path, content: bytes) -> float:
    """Seconds in which a nameless file is written, on the disk, and its checksum taken."""
    started = time.perf_counter()
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        hashlib.sha256(content)
        return time.perf_counter() - started
