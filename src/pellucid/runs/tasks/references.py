"""Models that are asked and not trained: the reference that a run started from, its teacher.

Comes in: what a task is given. Goes out: a model at rest. It does not know what it is asked.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import torch

from pellucid import config
from pellucid.checkpoints import load_model_tensors
from pellucid.errors import ConfigError
from pellucid.model import Transformer, adapters, assemble, without_adapters
from pellucid.objectives import Reference, frozen
from pellucid.runs.load import fill, load
from pellucid.runs.tasks.task import Given


def reference_of(given: Given) -> Reference:
    """The model as it was at the start: itself without its adapters, or else a copy.

    With adapters one model sits in memory, and without them two.
    """
    if adapters(given.model):
        return _without
    with torch.device("meta"):
        copy = assemble(given.run.model, seed=0)
    fill(copy, load_model_tensors(given.folder.start), given.model.device)
    return frozen(copy.eval().requires_grad_(False))


@contextmanager
def _without(model: Transformer) -> Generator[Transformer]:
    with without_adapters(model):
        yield model


def teacher_of(given: Given) -> Transformer:
    """The model that is distilled from, frozen.

    Raises:
        ConfigError: it cuts text into other tokens than the student, or knows another number of
            them: then their predictions cannot be compared.
    """
    objective = given.run.objective
    assert isinstance(objective, config.Distillation)
    teacher = load(Path(objective.teacher), device=str(given.model.device))
    if not isinstance(teacher.config.model.head, config.LanguageHead) or teacher.model.encoder:
        raise ConfigError(
            f"objective.teacher: {objective.teacher} is no decoder with a language head, and has "
            "no predictions of the next token to learn from"
        )
    same = teacher.tokenizer.to_json() == given.tokenizer.to_json()
    rows = teacher.config.model.rows, given.run.model.rows
    if not same or rows[0] != rows[1]:
        said = (
            "the two tokenizers cut text into other tokens"
            if not same
            else f"the teacher has {rows[0]:,} tokens and the student {rows[1]:,}"
        )
        raise ConfigError(
            f"objective.teacher: {said}, so that no prediction of one is a prediction of the "
            f"other: give the student the teacher's tokenizer (pellucid distill does), with --set "
            f"text.tokenizer.kind=FromFile --set text.tokenizer.path={objective.teacher}"
        )
    return teacher.model.requires_grad_(False)
