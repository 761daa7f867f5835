"""Examples of a task, kept as token ids and fed as batches. Knows no model and no loss."""

from pellucid.examples.collate import (
    Answers,
    ClassLabels,
    Collation,
    PromptBatch,
    PromptTexts,
    TwoAnswers,
    TwoTexts,
)
from pellucid.examples.orders import Bucketed, Packed, in_turn
from pellucid.examples.packing import Packing, pack
from pellucid.examples.parting import held_out_of
from pellucid.examples.store import (
    Examples,
    Facts,
    Ragged,
    StoredExamples,
    open_examples,
    write,
)

__all__ = [
    "Answers",
    "Bucketed",
    "ClassLabels",
    "Collation",
    "Examples",
    "Facts",
    "Packed",
    "Packing",
    "PromptBatch",
    "PromptTexts",
    "Ragged",
    "StoredExamples",
    "TwoAnswers",
    "TwoTexts",
    "held_out_of",
    "in_turn",
    "open_examples",
    "pack",
    "write",
]
