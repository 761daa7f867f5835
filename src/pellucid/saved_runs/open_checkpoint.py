"""Opening a checkpoint to resume from it.

Checksums show that a file is unchanged; this module checks that its content makes sense.
"""

from __future__ import annotations

from pathlib import Path

from pellucid.checkpoints import STATE, Checkpoint, SavedProgress, read_progress
from pellucid.checkpoints import load as load_checkpoint
from pellucid.errors import CheckpointError, PellucidError
from pellucid.reader import as_table
from pellucid.saved_runs.replans import read_clock
from pellucid.saved_runs.seal import check_seal
from pellucid.training import generators_kept, restore_generators

#: The errors of torch's, Python's and NumPy's generators for an invalid state.
_NO_STATE = (
    PellucidError, TypeError, ValueError, LookupError, AttributeError, OverflowError, RuntimeError
)  # fmt: skip


def open_checkpoint(path: Path, *, is_verified: bool = False) -> tuple[Checkpoint, SavedProgress]:
    """Open and verify a checkpoint, and its progress, which does not depend on the model.

    Args:
        path: of the checkpoint.
        is_verified: another rank has compared its checksums.

    Raises:
        CheckpointError: a file is damaged, or has an impossible value; names file and key.
    """
    saved, file = load_checkpoint(path, is_verified=is_verified), path / STATE
    progress = read_progress(saved.state, file)
    if path.name != f"step-{progress.step}":
        raise CheckpointError(
            f"{file} is damaged: progress.step is {progress.step:,}, but its folder is {path.name}"
        )
    check_seal(saved.state, file)
    read_clock(saved.state, file)
    with generators_kept():
        bring_back_generators(saved, file)
    return saved, progress


def bring_back_generators(saved: Checkpoint, file: Path) -> None:
    """Restore all random generators to their state in the checkpoint.

    Raises:
        CheckpointError: the saved state is invalid.
    """
    try:
        states = as_table(saved.state.get("generators", {}), f"generators in {STATE}")
        restore_generators(saved.random, states)
    except _NO_STATE as error:
        raise CheckpointError(
            f"the checkpoint's random generators cannot be restored ({error}): generators in "
            f"{file} is damaged, or random.safetensors in the same folder"
        ) from None
