"""Rows with named columns in, examples of a task as token ids out. Knows no model and no loss."""

from pellucid.examples.assemble import (
    Columns,
    assemble_columns,
    assemble_form,
    assemble_rows,
    assemble_template,
)
from pellucid.examples.census import Census, encoded
from pellucid.examples.example import Example, Form, Refusal
from pellucid.examples.plain import Labelled
from pellucid.examples.rows import Row
from pellucid.examples.templates import ChatTemplate, Template, template_for

__all__ = [
    "Census",
    "ChatTemplate",
    "Columns",
    "Example",
    "Form",
    "Labelled",
    "Refusal",
    "Row",
    "Template",
    "assemble_columns",
    "assemble_form",
    "assemble_rows",
    "assemble_template",
    "encoded",
    "template_for",
]
