"""Rows with named columns in, examples as token ids and batches out. Knows no model, no loss."""

from pellucid.examples.assemble import (
    Columns,
    assemble_columns,
    assemble_form,
    assemble_rows,
    assemble_template,
)
from pellucid.examples.census import Census, encoded
from pellucid.examples.collate import (
    Answers,
    ClassLabels,
    Collation,
    PromptBatch,
    PromptTexts,
    TwoAnswers,
    TwoTexts,
)
from pellucid.examples.example import Example, Form, Refusal
from pellucid.examples.orders import Bucketed, Packed, in_turn
from pellucid.examples.packing import Packing, pack
from pellucid.examples.parting import held_out_of
from pellucid.examples.plain import Labelled
from pellucid.examples.rows import Row
from pellucid.examples.store import (
    EXAMPLE_FILES,
    Examples,
    Facts,
    Ragged,
    StoredExamples,
    open_examples,
    write,
)
from pellucid.examples.templates import ChatTemplate, Template, template_for

__all__ = [
    "EXAMPLE_FILES",
    "Answers",
    "Bucketed",
    "Census",
    "ChatTemplate",
    "ClassLabels",
    "Collation",
    "Columns",
    "Example",
    "Examples",
    "Facts",
    "Form",
    "Labelled",
    "Packed",
    "Packing",
    "PromptBatch",
    "PromptTexts",
    "Ragged",
    "Refusal",
    "Row",
    "StoredExamples",
    "Template",
    "TwoAnswers",
    "TwoTexts",
    "assemble_columns",
    "assemble_form",
    "assemble_rows",
    "assemble_template",
    "encoded",
    "held_out_of",
    "in_turn",
    "open_examples",
    "pack",
    "template_for",
    "write",
]
