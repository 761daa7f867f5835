"""The loss of a plain text: the run's own if it learnt from plain text, else -log p."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from pellucid import config
from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain.losses.types import DistillationLoss, ExampleLoss, TokenLoss
from pellucid.explain.sentence import Sentence
from pellucid.model import Transformer
from pellucid.runs import Run
from pellucid.tasks.distillation import teacher_of

#: The teacher of each model that is open: every text of it needs the same one.
_teachers: WeakKeyDictionary[Transformer, Transformer] = WeakKeyDictionary()


def with_default_loss(sentence: Sentence, run: Run | None, model: Transformer) -> Sentence:
    """A text with its loss: its own; or a plain text's, with the reason if it is not the run's own.

    Args:
        sentence: the text.
        run: the run, if there is one.
        model: the model.
    """
    if sentence.loss is not None:
        return sentence
    ids = torch.tensor(sentence.ids, device=model.device)
    try:
        loss, note = default_loss(run, model, ids), describe_default(run) or ""
    except PellucidError as error:  # the teacher is gone: the text can be explained without it
        loss, note = (
            default_loss(None, model, ids),
            message("plain_text.this-is-log-p-of", error=error),
        )
    return replace(sentence, loss=loss, loss_note=note)


def default_loss(run: Run | None, model: Transformer, ids: Tensor) -> ExampleLoss | None:
    """The loss of a plain text: the run's own if it learnt from plain text, else -log p.

    Args:
        run: the run, if there is one.
        model: the model.
        ids: (time,), the text that the model predicts.

    Returns:
        None if the model predicts no token from those before it, or there is one token only.

    Raises:
        PellucidError: the run learnt from a teacher, which cannot be opened.
    """
    if model.decoder is None or not model.has_head or len(ids) < 2:
        return None
    places, targets = torch.arange(len(ids) - 1, device=ids.device), ids[1:]
    plain = TokenLoss(places=places, targets=targets)
    objective = None if run is None else run.config.objective
    match objective:
        case config.NextToken() | config.Seq2Seq():
            return penalised(plain, objective)
        case config.Distillation():
            assert run is not None
            return _distilled(run, objective, plain, ids)
        case (
            config.MLM()
            | config.SpanCorruption()
            | config.Classification()
            | config.SFT()
            | config.DPO()
            | config.PolicyGradient()
            | None
        ):
            return plain
        case _:
            assert_never(objective)


def penalised(
    plain: TokenLoss, objective: config.NextToken | config.SFT | config.Seq2Seq
) -> TokenLoss:
    """A loss with the smoothing and the penalties of an objective."""
    return replace(
        plain,
        label_smoothing=objective.label_smoothing,
        z_loss=objective.z_loss,
        entropy_bonus=objective.entropy_bonus,
    )


def describe_default(run: Run | None) -> str | None:
    """Why the loss of a plain text is not the run's own; None if it is."""
    objective = None if run is None else run.config.objective
    match objective:
        case config.SFT():
            form = message("plain_text.a-prompt-with-target-answer")
        case config.DPO():
            form = message("plain_text.a-prompt-with-target-chosen")
        case config.PolicyGradient():
            form = message("plain_text.a-prompt-with-reward")
        case (
            config.NextToken()
            | config.Distillation()
            | config.MLM()
            | config.SpanCorruption()
            | config.Seq2Seq()
            | config.Classification()
            | None
        ):
            return None
        case _:
            assert_never(objective)
    return message("plain_text.give-or-example-file", plain=_plain(objective), form=form)


def _plain(objective: config.Objective) -> str:
    return message("plain_text.this-run-was-trained-by", name=type(objective).__name__)


def _distilled(
    run: Run, objective: config.Distillation, plain: TokenLoss, ids: Tensor
) -> DistillationLoss:
    if run.model not in _teachers:
        _teachers[run.model] = teacher_of(run)
    with torch.no_grad():
        logits = _teachers[run.model](ids[None])[0, plain.places]
    return DistillationLoss(
        places=plain.places,
        targets=plain.targets,
        teacher_logits=logits,
        divergence=objective.divergence,
        temperature=objective.temperature,
        hard_weight=objective.hard_weight,
    )
