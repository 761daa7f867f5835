"""Frozen types for batches, models and losses.

Must not know: any other room.
"""

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
from pellucid.old_words import take_old_words as _take_old_words

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

_take_old_words(__name__, globals())
