"""Lightning's trainer, on the processor, silent, and writing nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def quiet_trainer(folder: Path, callbacks: Sequence[Any], **settings: Any) -> Any:
    import lightning.pytorch as lightning

    return lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=str(folder),
        callbacks=list(callbacks),
        **settings,
    )
