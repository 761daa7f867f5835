"""The first row of a batch that trains, as texts with their loss."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from pellucid import config
from pellucid.batches import (
    IGNORED,
    LabelBatch,
    PairBatch,
    PreferenceBatch,
    RolloutBatch,
    TokenBatch,
)
from pellucid.errors import PellucidError
from pellucid.explain.losses.plain_text import penalised
from pellucid.explain.losses.types import (
    ClassLoss,
    ExampleLoss,
    PolicyLoss,
    PreferenceLoss,
    TokenLoss,
)
from pellucid.explain.sentence import Sentence, Spelling
from pellucid.model import Transformer
from pellucid.objectives import DPO, open_reference, row_log_p
from pellucid.runs import Run
from pellucid.saved_runs.requirements import kind_of
from pellucid.tasks import Task
from pellucid.typed import to_list


def example_sentence(
    run: Run, ids: Tensor, text: str, loss: ExampleLoss | None, source: Tensor | None = None
) -> Sentence:
    """Token ids as a text with its loss.

    Args:
        run: the run.
        ids: (time,), what the model predicts.
        text: what it says, for titles.
        loss: of the text.
        source: (time,), what the encoder of an encoder-decoder reads.
    """
    tokenizer, kind = run.require_tokenizer(), kind_of(run.model)
    spelling = Spelling(tokenizer)
    has_masks = kind == "encoder" and run.model.has_head
    mask_id = tokenizer.id_of(tokenizer.roles().get("mask_token", "")) if has_masks else None
    token_ids, source_ids = to_list(ids), None if source is None else to_list(source)
    return Sentence(
        text=text,
        kind=kind,
        ids=tuple(token_ids),
        pieces=tuple(map(spelling.any_piece, token_ids)),
        source_ids=None if source_ids is None else tuple(source_ids),
        source_pieces=tuple(map(spelling.any_piece, source_ids or ())),
        masks=tuple(place for place, token_id in enumerate(token_ids) if token_id == mask_id),
        loss=loss,
        is_example=True,
    )


def counted_places(run: Run, batch: TokenBatch | PairBatch, row: int = 0) -> tuple[Tensor, Tensor]:
    """The places of a row that count, and their targets."""
    targets = batch.targets[row].to(run.model.device)
    places = (targets != IGNORED).nonzero().flatten()
    if not len(places):
        raise PellucidError("no token of this example counts: nothing is left to learn from it")
    return places, targets[places]


def _real(batch: TokenBatch, row: int = 0) -> Tensor:
    return batch.ids[row] if batch.padding is None else batch.ids[row][batch.padding[row]]


def token_sentence(run: Run, batch: TokenBatch, text: str) -> Sentence:
    """A row of tokens.

    Args:
        run: the run.
        batch: the batch.
        text: what the row says, for titles.
    """
    places, targets = counted_places(run, batch)
    return example_sentence(run, _real(batch), text, _token_loss(run, places, targets))


def _token_loss(run: Run, places: Tensor, targets: Tensor) -> TokenLoss:
    objective, plain = run.config.objective, TokenLoss(places=places, targets=targets)
    match objective:
        case config.NextToken() | config.SFT() | config.Seq2Seq():
            return penalised(plain, objective)
        case _:
            return plain


def pair_sentence(run: Run, batch: PairBatch, text: str) -> Sentence:
    """A source and its target.

    Args:
        run: the run.
        batch: the batch.
        text: what the row says, for titles.
    """
    places, targets = counted_places(run, batch)
    ids = batch.ids[0][: int(places[-1]) + 1]
    source = batch.source[0][batch.source_padding[0]]
    return example_sentence(run, ids, text, _token_loss(run, places, targets), source)


def label_sentence(run: Run, batch: LabelBatch, text: str) -> Sentence:
    """A text and its class.

    Args:
        run: the run.
        batch: the batch.
        text: what the row says, for titles.
    """
    objective, head = run.config.objective, run.config.model.head
    assert isinstance(objective, config.Classification)
    assert isinstance(head, config.ClassificationHead)
    loss = ClassLoss(
        classes=tuple(head.names),
        labels=batch.labels[0].to(run.model.device),
        label_smoothing=objective.label_smoothing,
    )
    return example_sentence(run, batch.ids[0][batch.padding[0]], text, loss)


def preference_sentence(run: Run, batch: PreferenceBatch, text: str, task: Task) -> Sentence:
    """The chosen answer, with the rejected one as its companion."""
    objective = task.objective
    assert isinstance(objective, DPO)
    with open_reference(objective.reference, run.model) as reference:
        answers = [
            _answer(run, answer, text, is_chosen, reference, objective)
            for answer, is_chosen in ((batch.chosen, True), (batch.rejected, False))
        ]
    return replace(answers[0], companion=answers[1])


def _answer(
    run: Run,
    batch: TokenBatch,
    text: str,
    is_chosen: bool,
    reference: Transformer,
    objective: DPO,
) -> Sentence:
    places, targets = counted_places(run, batch)
    ids = _real(batch).to(run.model.device)
    states = reference.hidden_states(ids[None])
    rows = torch.full((1, len(ids)), IGNORED, device=ids.device)
    rows[0, places] = targets
    loss = PreferenceLoss(
        places=places,
        targets=targets,
        is_chosen=is_chosen,
        reference_log_ps=row_log_p(reference, states, rows)[0, places],
        beta=objective.beta,
        kind=objective.loss,
        label_smoothing=objective.label_smoothing,
    )
    return example_sentence(run, ids, text, loss)


def rollout_sentence(run: Run, batch: RolloutBatch, text: str) -> Sentence:
    """The first of the answers that the model sampled.

    Args:
        run: the run.
        batch: the batch.
        text: what the row says, for titles.

    Raises:
        PellucidError: that answer is empty.
    """
    objective = run.config.objective
    assert isinstance(objective, config.PolicyGradient)
    targets = batch.targets[0].to(run.model.device)
    places = (targets != IGNORED).nonzero().flatten()
    if not len(places):
        raise PellucidError("the model's first answer is empty: no token of it can be explained")
    loss = PolicyLoss(
        places=places,
        targets=targets[places],
        rewards=tuple(to_list(batch.rewards)),
        advantage=float(batch.advantages[0]),
        reference_log_ps=batch.reference_log_p[0].to(run.model.device)[places],
        beta=objective.beta,
        kl=objective.kl,
        temperature=objective.temperature,
        entropy_bonus=objective.entropy_bonus,
    )
    return example_sentence(run, batch.ids[0][: int(places[-1]) + 1], text, loss)
