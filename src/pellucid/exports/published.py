"""A run as a directory of `transformers`: of a published family, or in our own form."""

from __future__ import annotations

from pathlib import Path

from pellucid.checkpoints import write_folder
from pellucid.checkpoints.huggingface import (
    PUBLISHED_FILES,
    Completed,
    complete,
    write_own,
    write_published,
)
from pellucid.errors import CheckpointError
from pellucid.exports.card import CARD, CardFacts, card
from pellucid.exports.generation_defaults import generation_table
from pellucid.exports.subject import Exported, Subject
from pellucid.exports.tokenizer_files import TOKENIZER_FILES, write_tokenizer_files
from pellucid.json_text import json_text

GENERATION = "generation_config.json"
#: All files of an export.
FILES = (*PUBLISHED_FILES, *TOKENIZER_FILES, CARD)


def write_transformers(subject: Subject, out: Path) -> Exported:
    """Write a run for `transformers`.

    Args:
        subject: the opened run.
        out: the new folder.

    Raises:
        CheckpointError: the disk is full or cannot be written.
        TextError: the chat template cannot leave.
    """
    completed, reason = _completed(subject)
    family, notes = "", (reason or completed.note,)

    def write(place: Path) -> None:
        nonlocal family
        write_model = write_published if reason is None else write_own
        family = write_model(
            place,
            completed.model,
            completed.tensors,
            subject.ids,
            problem_type=subject.problem_type,
        )
        write_tokenizer_files(place, subject.config, subject.tokenizer, subject.template)
        generation = generation_table(
            subject.config, subject.ids, answers=subject.template is not None
        )
        if generation is not None:
            text = json_text(generation, indent=2) + "\n"
            (place / GENERATION).write_text(text, encoding="utf-8")
        facts = CardFacts(
            name=out.resolve().name,
            format="transformers" if reason is None else "own",
            family=family,
            notes=notes,
        )
        text = card(facts, subject.run, subject.folder, step=subject.step)
        (place / CARD).write_text(text, encoding="utf-8")

    write_folder(out, FILES, write)
    return Exported(folder=out, family=family, notes=tuple(note for note in notes if note))


def _completed(subject: Subject) -> tuple[Completed, str | None]:
    """The model as a family holds it; or as it is, and why it leaves in our own form."""
    try:
        return complete(subject.config, subject.tensors), None
    except CheckpointError as error:
        reason = f"It opens after `import pellucid.transformers`, because {error}."
        return Completed(subject.config, subject.tensors), reason
