"""Opening a checkpoint to resume from it.

Checksums say that a file is as it was written; this file checks that its content makes sense.
"""

from __future__ import annotations

from pathlib import Path

from pellucid.checkpoints import STATE, Checkpoint, SavedProgress, read_progress
from pellucid.checkpoints import load as load_checkpoint
from pellucid.errors import CheckpointError, PellucidError
from pellucid.reader import as_table
from pellucid.saved_runs.seal import check_seal
from pellucid.training import generators_kept, restore_generators

#: What torch's, Python's and NumPy's generators raise on a state that is none.
_NO_STATE = (
    PellucidError, TypeError, ValueError, LookupError, AttributeError, OverflowError, RuntimeError
)  # fmt: skip


def open_checkpoint(path: Path) -> tuple[Checkpoint, SavedProgress]:
    """Read a checkpoint, verified, and all in it that does not depend on the model.

    Raises:
        CheckpointError: a file is damaged, or says what cannot be; names file and key.
    """
    saved, file = load_checkpoint(path), path / STATE
    progress = read_progress(saved.state, file)
    if path.name != f"step-{progress.step}":
        raise CheckpointError(
            f"{file} is damaged: progress.step is {progress.step:,}, expected that of its "
            f"folder, {path.name}"
        )
    check_seal(saved.state, file)
    with generators_kept():
        bring_back_generators(saved, file)
    return saved, progress


def bring_back_generators(saved: Checkpoint, file: Path) -> None:
    """Let all random generators be as they were when the checkpoint was saved.

    Raises:
        CheckpointError: what was saved is no state of theirs.
    """
    try:
        states = as_table(saved.state.get("generators", {}), f"generators in {STATE}")
        restore_generators(saved.random, states)
    except _NO_STATE as error:
        raise CheckpointError(
            f"the checkpoint's random generators cannot be restored ({error}): generators in "
            f"{file}, or random.safetensors beside it, is damaged"
        ) from None
