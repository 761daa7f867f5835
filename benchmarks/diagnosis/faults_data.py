"""Faults of data, labels and losses.

Comes in: nothing. Goes out: a list of classes.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.diagnosis.changes import fill
from benchmarks.diagnosis.fault import Fault
from benchmarks.diagnosis.rows import END, PAD, UNKNOWN, Batch
from benchmarks.diagnosis.training import Loss, Training, cross_entropy
from pellucid.batches import IGNORED

_DATA_OR_LOSS: Any = {"tuning": ("data", "loss"), "judging": ("loss", "data")}


def _shifted_labels(ids: Tensor, shift: int) -> Tensor:
    labels = torch.full_like(ids, IGNORED)
    labels[:, : ids.shape[1] - shift] = ids[:, shift:]
    return labels


def _shifted(shift: int) -> Any:
    """Labels are shifted by `shift` places, in the data or in the loss function."""

    def inject(t: Training, level: str) -> None:
        if level == "data":
            t.prepare.append(lambda b: replace(b, labels=_shifted_labels(b.ids, shift)))
        elif shift == 0:
            t.loss = lambda z, y: cross_entropy(z[:, 1:], y[:, :-1])
        else:
            t.loss = lambda z, y: cross_entropy(z[:, :-1], y[:, 1:])

    return inject


def _random_places(batch: Batch, share: float, salt: int, *, rows: bool = False) -> Tensor:
    """A share of places or rows, by chance, the same for the same batch."""
    seed = int(batch.ids.sum()) * 7 + salt
    draws = torch.Generator().manual_seed(seed)
    shape = (len(batch.ids), 1) if rows else batch.ids.shape
    return torch.rand(shape, generator=draws) < share


def _of_other_rows(t: Training, share: float) -> None:
    def change(b: Batch) -> Batch:
        is_changed = _random_places(b, share, 1, rows=True) & (b.labels != IGNORED)
        return replace(b, labels=torch.where(is_changed, b.labels.roll(1, 0), b.labels))

    t.prepare.append(change)


def _noise(t: Training, share: float) -> None:
    def change(b: Batch) -> Batch:
        is_changed = _random_places(b, share, 2) & (b.labels != IGNORED)
        others = b.labels.flip(0).roll(5, 1)
        others = torch.where(others == IGNORED, b.labels, others)
        return replace(b, labels=torch.where(is_changed, others, b.labels))

    t.prepare.append(change)


def _few_labels(t: Training, share: float) -> None:
    t.prepare.append(
        lambda b: replace(b, labels=b.labels.masked_fill(~_random_places(b, share, 3), IGNORED))
    )


def tokenizer(**changes: Any) -> Any:
    """The attributes of a tokenizer that checks read."""
    defaults = {"pad_token_id": PAD, "eos_token_id": END, "unk_token_id": UNKNOWN, "vocab_size": 96}
    return SimpleNamespace(**(defaults | changes))


def _end_unasked(t: Training, level: str) -> None:
    t.tokenizer = tokenizer(pad_token_id=END)

    def change(b: Batch) -> Batch:
        ids = b.ids.masked_fill(b.ids == PAD, END) if level == "same id" else b.ids
        return replace(b, ids=ids, labels=b.labels.masked_fill(b.labels == END, IGNORED))

    t.prepare.append(change)


def _padding_asked(t: Training, level: str) -> None:
    def change(b: Batch) -> Batch:
        labels = _shifted_labels(b.ids, 1)
        if level == "some":
            labels[::2] = b.labels[::2]
        return replace(b, labels=labels)

    t.prepare.append(change)


def _loss(change: Any) -> Any:
    def inject(t: Training, level: Any) -> None:
        usual: Loss = t.loss
        t.loss = lambda logits, labels: change(usual, logits, labels, level)

    return inject


def _squashed(usual: Loss, logits: Tensor, labels: Tensor, level: str) -> Tensor:
    probable = {
        "softmax": lambda: logits.softmax(-1),
        "sigmoid": lambda: logits.sigmoid(),
        "in float64": lambda: logits.double().softmax(-1).float(),
    }
    return usual(probable[level](), labels)


def _sign_turned(t: Training, level: str) -> None:
    if level == "loss":
        usual: Loss = t.loss
        t.loss = lambda logits, labels: -usual(logits, labels)
    else:
        for group in t.groups:
            group["maximize"] = True


def _summed(usual: Loss, logits: Tensor, labels: Tensor, level: str) -> Tensor:
    divisor = {"tokens": 1, "rows": labels.shape[0], "places": labels.shape[1]}[level]
    flat = F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return flat / divisor


def _divided_by_all(usual: Loss, logits: Tensor, labels: Tensor, level: Any) -> Tensor:
    return _summed(usual, logits, labels, "tokens") / labels.numel()


def _same_batches(t: Training, count: int) -> None:
    usual = t.batch_of
    t.batch_of = lambda update: usual(update % count)


def _copies(t: Training, share: float) -> None:
    def change(b: Batch) -> Batch:
        count = len(b.ids)
        n_different = max(1, round(count * (1 - share)))
        row_indices = torch.arange(count) % n_different
        parts = (b.ids, b.labels, b.padding, b.documents, b.source)
        return Batch(*(None if p is None else p[row_indices] for p in parts))  # type: ignore[arg-type]

    usual = t.batch_of
    t.batch_of = lambda update: change(usual(update))


def _other_ids(t: Training, share: float) -> None:
    """Inputs from a tokenizer whose ids mean something else; labels from the right one."""
    vocab = t.run.model.rows
    draws = torch.Generator().manual_seed(11)
    count = round(vocab * share)
    changed_ids = torch.randperm(vocab, generator=draws)[:count]
    table = torch.arange(vocab)
    table[changed_ids] = changed_ids.roll(1)
    t.prepare.append(lambda b: replace(b, ids=table[b.ids]))


def _inputs_lost(t: Training, share: float) -> None:
    def change(b: Batch) -> Batch:
        is_lost = _random_places(b, share, 4)
        return replace(b, ids=torch.where(is_lost, b.ids.flip(0).roll(3, 1), b.ids))

    t.prepare.append(change)


def _unknown(t: Training, share: float) -> None:
    def change(b: Batch) -> Batch:
        is_unknown = _random_places(b, share, 5)
        labels = b.labels.clone()
        labels[:, :-1] = torch.where(
            is_unknown[:, 1:] & (labels[:, :-1] != IGNORED), UNKNOWN, labels[:, :-1]
        )
        return replace(
            b, ids=b.ids.masked_fill(is_unknown & (b.ids != PAD), UNKNOWN), labels=labels
        )

    t.prepare.append(change)


def _bad_batches(t: Training, count: int) -> None:
    usual, vocab = t.batch_of, t.run.model.rows

    def batch(update: int) -> Batch:
        usual_batch = usual(update)
        if not BAD_FROM <= update < BAD_FROM + count:
            return usual_batch
        draws = torch.Generator().manual_seed(update)
        ids = torch.randint(4, vocab, usual_batch.ids.shape, generator=draws)
        return replace(usual_batch, ids=ids, labels=_shifted_labels(ids, 1))

    t.batch_of = batch


def _degenerate(t: Training, share: float) -> None:
    """From some update on, many texts say one thing again and again."""
    usual = t.batch_of

    def batch(update: int) -> Batch:
        usual_batch = usual(update)
        if update < BAD_FROM:
            return usual_batch
        repeated = usual_batch.ids[:, :3].repeat(1, usual_batch.ids.shape[1])[
            :, : usual_batch.ids.shape[1] + 1
        ]
        is_degenerate = torch.arange(len(usual_batch.ids))[:, None] < round(
            share * len(usual_batch.ids)
        )
        labels = torch.where(is_degenerate, repeated[:, 1:], usual_batch.labels)
        return replace(
            usual_batch,
            ids=torch.where(is_degenerate, repeated[:, :-1], usual_batch.ids),
            labels=labels,
        )

    t.batch_of = batch


def _not_loaded(t: Training, level: str) -> None:
    draws = torch.Generator().manual_seed(5)
    for name, weight in t.model.named_parameters():
        is_not_loaded = level == "all" or level in name
        if weight.ndim > 1 and is_not_loaded:
            fill(weight, torch.randn(weight.shape, generator=draws) * 0.06)


def _transposed(t: Training, level: str) -> None:
    for block in t.model.stack.blocks:
        parts: Any = block
        for name in ("output", "query") if level == "both" else (level,):
            weight = getattr(parts.attention, name).weight
            fill(weight, weight.detach().mT.clone())


BAD_FROM = 70
FAULTS = [
    Fault(name="labels not moved", accepted=("LOS001", "DAT011"), kind="invariant",
          inject=_shifted(0), **_DATA_OR_LOSS),
    Fault(name="labels moved twice", accepted=("LOS002",), kind="invariant",
          inject=_shifted(2), **_DATA_OR_LOSS),
    Fault(name="labels of other rows", accepted=("LOS003", "DAT009"), kind="invariant",
          inject=_of_other_rows, tuning=(1.0, 0.5), judging=(0.75, 0.3)),
    Fault(name="noise in the labels", accepted=("LOS003", "DAT009"), kind="invariant",
          inject=_noise, tuning=(0.4, 0.7), judging=(0.3, 0.6)),
    Fault(name="few labels", accepted=("LOS004",), kind="invariant",
          inject=_few_labels, tuning=(0.03, 0.06), judging=(0.02, 0.08)),
    Fault(name="end never asked for", accepted=("DAT005",), kind="invariant", base="ended",
          inject=_end_unasked, tuning=("same id", "own id"), judging=("own id", "same id")),
    Fault(name="padding asked for", accepted=("DAT006",), kind="invariant", base="ended",
          inject=_padding_asked, tuning=("all", "some"), judging=("some", "all")),
    Fault(name="ignored places counted", accepted=("LOS010",), kind="invariant", base="padded",
          inject=_loss(_divided_by_all), tuning=(0, 1), judging=(2, 3)),
    Fault(name="softmax twice", accepted=("LOS008", "LOS005"), kind="invariant",
          inject=_loss(_squashed), tuning=("softmax", "sigmoid"),
          judging=("in float64", "sigmoid")),
    Fault(name="sign turned", accepted=("LOS009",), kind="invariant", inject=_sign_turned,
          tuning=("loss", "maximise"), judging=("maximise", "loss")),
    Fault(name="loss summed", accepted=("LOS006",), kind="invariant", inject=_loss(_summed),
          tuning=("tokens", "rows"), judging=("places", "tokens")),
    Fault(name="same batches again", accepted=("DAT001",), kind="invariant",
          inject=_same_batches, tuning=(1, 2), judging=(3, 1)),
    Fault(name="copies of rows", accepted=("DAT002",), kind="invariant",
          inject=_copies, tuning=(0.5, 0.9), judging=(0.7, 0.95)),
    Fault(name="ids of another tokenizer", accepted=("LOS003", "DAT009"), kind="invariant",
          inject=_other_ids, tuning=(1.0, 0.5), judging=(0.8, 0.3)),
    Fault(name="inputs lost", accepted=("LOS003", "DAT009"), kind="invariant",
          inject=_inputs_lost, tuning=(1.0, 0.5), judging=(0.7, 0.3)),
    Fault(name="unknown tokens", accepted=("DAT004",), kind="invariant", base="ended",
          inject=_unknown, tuning=(0.3, 0.6), judging=(0.2, 0.5)),
    Fault(name="bad batches", accepted=("DAT008",), inject=_bad_batches,
          tuning=(3, 10), judging=(5, 20), onset=lambda level: BAD_FROM),
    Fault(name="degenerate texts", accepted=("DAT008", "DAT012"), inject=_degenerate,
          tuning=(0.5, 0.9), judging=(0.7, 1.0), onset=lambda level: BAD_FROM),
    Fault(name="checkpoint not loaded", accepted=("WGT004",), kind="invariant", base="fine-tuning",
          inject=_not_loaded, tuning=("all", "blocks"), judging=("embedding", "all")),
    Fault(name="weights transposed", accepted=("WGT005",), kind="invariant", base="fine-tuning",
          inject=_transposed, tuning=("output", "both"), judging=("query", "output"),
          place="attention|output|query"),
]  # fmt: skip
