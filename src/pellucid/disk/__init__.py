"""Files and folders that pellucid writes: never half of one, and never over a file of yours.

Must not know: the meaning of what it writes.
"""

from pellucid.disk.atomic_write import write_bytes, write_folder, write_text
from pellucid.disk.outputs import (
    check_output,
    free_name,
    sealed,
    set_aside,
    write_output,
    write_output_bytes,
)
from pellucid.disk.removal import clear, remove, remove_empty, remove_file
from pellucid.disk.rename import free_bytes, move
from pellucid.disk.unfinished_folder import (
    PARTIAL,
    FolderInUse,
    Partial,
    is_free,
    new_folder,
    sweep,
)

__all__ = [
    "PARTIAL",
    "FolderInUse",
    "Partial",
    "check_output",
    "clear",
    "free_bytes",
    "free_name",
    "is_free",
    "move",
    "new_folder",
    "remove",
    "remove_empty",
    "remove_file",
    "sealed",
    "set_aside",
    "sweep",
    "write_bytes",
    "write_folder",
    "write_output",
    "write_output_bytes",
    "write_text",
]
