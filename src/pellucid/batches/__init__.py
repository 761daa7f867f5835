"""The frozen types that text, models and objectives hand each other. They know nothing else."""

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
