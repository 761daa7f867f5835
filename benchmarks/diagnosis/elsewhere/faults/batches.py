"""Mistakes in rows and batches: labels, masks, positions, padding, repetition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.diagnosis.elsewhere.families import Family, takes_positions
from benchmarks.diagnosis.elsewhere.faults.fault import ROWS, TOKENS, Faults
from benchmarks.diagnosis.elsewhere.parts import Batch, Loop, Parts
from benchmarks.diagnosis.elsewhere.texts import BOS, EOS, MASK, PAD, UNK, VOCAB, Example

FAULTS = Faults()


def _rebatched(parts: Parts, change: Any) -> Parts:
    """The pieces with another collator, around the one there is."""

    def joined(rows: list[Example], task: str) -> Batch:
        return change(parts.joined(rows, task))

    return replace(parts, joined=joined)


@FAULTS.add("labels shifted twice", tasks=("lm",), own=False)
def _(parts: Parts, family: Family) -> Parts:
    def change(batch: Batch) -> Batch:
        # the model shifts them itself
        labels = F.pad(batch["labels"][:, 1:], (0, 1), value=-100)
        return batch | {"labels": labels}

    return _rebatched(parts, change)


@FAULTS.add("labels shifted twice", tasks=("lm",), own=True)
def _(parts: Parts, family: Family) -> Parts:
    def loss(loop: Loop, batch: Batch) -> Tensor:
        logits = loop.model(batch["x"]).logits[:, :-1]
        return F.cross_entropy(logits.reshape(-1, VOCAB), batch["y"][:, 1:].reshape(-1))

    return replace(parts, loss=loss)


@FAULTS.add("labels not shifted", tasks=("lm",), own=True)
def _(parts: Parts, family: Family) -> Parts:
    return _rebatched(parts, lambda batch: batch | {"y": batch["x"]})


@FAULTS.add("softmax before cross-entropy", tasks=("lm",), own=True)
def _(parts: Parts, family: Family) -> Parts:
    def loss(loop: Loop, batch: Batch) -> Tensor:
        shares = loop.model(batch["x"]).logits.softmax(-1)
        return F.cross_entropy(shares.reshape(-1, VOCAB), batch["y"].reshape(-1))

    return replace(parts, loss=loss)


@FAULTS.add("logits divided by 30", tasks=("lm",), own=True)
def _(parts: Parts, family: Family) -> Parts:
    def loss(loop: Loop, batch: Batch) -> Tensor:
        logits = loop.model(batch["x"]).logits / 30
        return F.cross_entropy(logits.reshape(-1, VOCAB), batch["y"].reshape(-1))

    return replace(parts, loss=loss)


@FAULTS.add("label smoothing of 0.9", tasks=("lm",), own=True)
def _(parts: Parts, family: Family) -> Parts:
    def loss(loop: Loop, batch: Batch) -> Tensor:
        logits = loop.model(batch["x"]).logits.reshape(-1, VOCAB)
        return F.cross_entropy(logits, batch["y"].reshape(-1), label_smoothing=0.9)

    return replace(parts, loss=loss)


@FAULTS.add("labels of other rows", tasks=ROWS)
def _(parts: Parts, family: Family) -> Parts:
    def change(batch: Batch) -> Batch:
        name = "y" if "y" in batch else "labels"
        return batch | {name: batch[name].roll(1, 0)}

    return _rebatched(parts, change)


@FAULTS.add("inputs shuffled", tasks=("lm", "seq2seq", "mlm"))
def _(parts: Parts, family: Family) -> Parts:
    def change(batch: Batch) -> Batch:
        name = "x" if "x" in batch else "input_ids"
        order = torch.randperm(batch[name].shape[1])
        return batch | {name: batch[name][:, order]}

    return _rebatched(parts, change)


@FAULTS.add("positions all 0", tasks=TOKENS, own=False, fits=takes_positions)
def _(parts: Parts, family: Family) -> Parts:
    def change(batch: Batch) -> Batch:
        return batch | {"position_ids": torch.zeros_like(batch["input_ids"])}

    return _rebatched(parts, change)


@FAULTS.add("mask of padding upside down", tasks=ROWS, own=False)
def _(parts: Parts, family: Family) -> Parts:
    def change(batch: Batch) -> Batch:
        mask = batch["attention_mask"]
        return batch | {"attention_mask": 1 - mask}

    return _rebatched(parts, change)


@FAULTS.add("rows of one token", tasks=ROWS)
def _(parts: Parts, family: Family) -> Parts:
    def prepared(rows: list[Example]) -> list[Example]:
        # a tokenizer that cannot spell the text
        return [row | {"ids": [BOS, *[UNK] * (len(row["ids"]) - 2), EOS]} for row in rows]

    return replace(parts, prepared=prepared)


@FAULTS.add("the same batch again")
def _(parts: Parts, family: Family) -> Parts:
    def drawn(rows: list[Example], update: int, draws: torch.Generator) -> list[int]:
        return list(range(8))

    return replace(parts, drawn=drawn)


@FAULTS.add("ten rows are all the data")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, prepared=lambda rows: rows[:10] * 40)


@FAULTS.add("texts cut off", tasks=("lm", "mlm", "seq2seq"), own=False)
def _(parts: Parts, family: Family) -> Parts:
    def prepared(rows: list[Example]) -> list[Example]:
        return [row | {"ids": row["ids"][:4]} for row in rows]

    return replace(parts, prepared=prepared)


@FAULTS.add("hardly any labels", tasks=("lm",), own=False)
def _(parts: Parts, family: Family) -> Parts:
    def change(batch: Batch) -> Batch:
        labels = torch.full_like(batch["labels"], -100)
        labels[0, :3] = batch["labels"][0, :3]
        return batch | {"labels": labels}

    return _rebatched(parts, change)


@FAULTS.add("masked inputs not masked", tasks=("mlm",))
def _(parts: Parts, family: Family) -> Parts:
    def change(batch: Batch) -> Batch:
        chosen = batch["labels"] != -100
        ids = torch.where(chosen, batch["labels"], batch["input_ids"])
        return batch | {"input_ids": ids}

    return _rebatched(parts, change)


@FAULTS.add("loss on every token of a masked model", tasks=("mlm",))
def _(parts: Parts, family: Family) -> Parts:
    def change(batch: Batch) -> Batch:
        chosen = batch["labels"] != -100
        labels = torch.where(chosen, batch["labels"], batch["input_ids"])
        labels[labels == PAD] = -100
        return batch | {"labels": labels}

    return _rebatched(parts, change)


@FAULTS.add("nearly all is masked", tasks=("mlm",))
def _(parts: Parts, family: Family) -> Parts:
    def change(batch: Batch) -> Batch:
        ids, labels = batch["input_ids"], batch["labels"]
        whole = torch.where(labels == -100, ids, labels)
        return batch | {
            "input_ids": whole.masked_fill(whole > MASK, MASK),
            "labels": whole.masked_fill(whole <= MASK, -100),
        }

    return _rebatched(parts, change)


@FAULTS.add("source and target swapped", tasks=("seq2seq",))
def _(parts: Parts, family: Family) -> Parts:
    def prepared(rows: list[Example]) -> list[Example]:
        return [{"ids": [BOS, *row["target"]], "target": row["ids"][1:]} for row in rows]

    return replace(parts, prepared=prepared)


@FAULTS.add("decoder is given its labels", tasks=("seq2seq",))
def _(parts: Parts, family: Family) -> Parts:
    def change(batch: Batch) -> Batch:
        return batch | {"decoder_input_ids": batch["labels"].clamp(min=PAD)}

    return _rebatched(parts, change)


@FAULTS.add("noise in the labels", tasks=ROWS)
def _(parts: Parts, family: Family) -> Parts:
    def change(batch: Batch) -> Batch:
        name = "y" if "y" in batch else "labels"
        labels = batch[name]
        top = 2 if labels.ndim == 1 else VOCAB
        wrong = (torch.rand(labels.shape) < 0.7) & (labels >= 0)
        return batch | {name: torch.where(wrong, torch.randint_like(labels, top), labels)}

    return _rebatched(parts, change)
