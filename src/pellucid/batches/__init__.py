"""Frozen types for batches, models and losses. This room imports no other."""

from pellucid.batches.types import (
    IGNORED,
    Batch,
    Classifier,
    LabelBatch,
    LanguageModel,
    Loss,
    PairBatch,
    PreferenceBatch,
    RolloutBatch,
    TokenBatch,
)

__all__ = [
    "IGNORED",
    "Batch",
    "Classifier",
    "LabelBatch",
    "LanguageModel",
    "Loss",
    "PairBatch",
    "PreferenceBatch",
    "RolloutBatch",
    "TokenBatch",
]
