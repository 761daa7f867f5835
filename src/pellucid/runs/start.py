"""Where a run's first weights come from, when they are not drawn.

Comes in: a run, one of its checkpoints, or a published model. Goes out: its config, a copy of its
weights in another run's folder. It does not know what will be trained.
"""

from __future__ import annotations

from pathlib import Path

from pellucid import config
from pellucid.checkpoints import Checkpoint, save
from pellucid.model import merged
from pellucid.runs.folder import RunFolder, existing_folder, is_published
from pellucid.runs.load import load, read_config
from pellucid.runs.published import published_config


def config_of(path: Path) -> config.Run:
    """The config of what a run goes on from.

    Raises:
        RunError: there is neither a run nor a published model.
    """
    if is_published(path):
        return published_config(path)
    folder, _ = existing_folder(path)
    return read_config(folder)


def keep_start(path: Path, folder: RunFolder) -> None:
    """Copy the weights at `path` into the folder of the run that starts from them.

    So the run stays whole when the other is gone. Adapters are merged: they were a way to train,
    and what was trained is the sum.
    """
    begun = load(path)
    start = Checkpoint(
        model=merged(begun.model), optimiser={}, random={}, state={"from": str(begun.checkpoint)}
    )
    save(folder.start, start)
