"""The frozen types that text, models and objectives hand each other. They know nothing else."""

from pellucid.batches.types import IGNORED, LanguageModel, Loss, TokenBatch

__all__ = ["IGNORED", "LanguageModel", "Loss", "TokenBatch"]
