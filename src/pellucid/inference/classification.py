"""The class of a text, by a run that was trained to tell classes apart.

Comes in: a run and texts. Goes out: for each text its classes with their probabilities. It does not
know how they are shown.

Of a run that was trained with one class a text, the probabilities of the classes add up to 1
(softmax), and the likeliest is the text's. Of one with several labels a text each class has a
probability of its own (sigmoid), and those above one half are the text's, which may be none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float

from pellucid import config
from pellucid.errors import ConfigError, PellucidError, TextError
from pellucid.generation import finite, pad
from pellucid.saved_runs.inference_memory import check_reading
from pellucid.saved_runs.load import Run
from pellucid.tokenizers import Cut, Framing


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassShare:
    """A class, and the probability that a text is of it."""

    name: str
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """A text and its class; of a run with several labels a text, any number of them.

    `shares` has every class, the likeliest first. `truncated`: the text was longer than the model
    reads, and its end was not seen.
    """

    text: str
    classes: tuple[str, ...]
    shares: tuple[ClassShare, ...]
    truncated: bool


def classify(
    run: Run, texts: str | Sequence[str], *, batch_size: int = 32, force: bool = False
) -> list[Classified]:
    """The class of each text, with its probability.

    Texts are read in padded batches; neither padding nor neighbours change what is said. With
    `force` they are read even if more memory is expected to be needed than is free.

    Raises:
        ConfigError: `batch_size` is less than 1.
        TextError: a text is empty.
        PellucidError: the model tells no classes apart.
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    if batch_size < 1:
        raise ConfigError(f"batch_size must be at least 1, was {batch_size}")
    names = class_names(run)
    rows = _read(run, texts)
    check_reading(
        run,
        sequences=min(batch_size, len(rows)),
        length=max((len(row.ids) for row in rows), default=0),
        lower="batch_size",
        logits=False,
        force=force,
    )
    # texts of like length together, so that little is padded
    order = sorted(range(len(rows)), key=lambda place: len(rows[place].ids))
    by_place = dict[int, Classified]()
    for at in range(0, len(order), batch_size):
        places = order[at : at + batch_size]
        shares = _shares(run, [rows[place].ids for place in places])
        for place, row in zip(places, shares, strict=True):
            by_place[place] = _classified(run, texts[place], names, row, rows[place].truncated)
    return [by_place[place] for place in range(len(texts))]


def class_names(run: Run) -> tuple[str, ...]:
    """The classes that a run tells apart.

    Raises:
        PellucidError: it tells none apart.
    """
    head = run.config.model.head
    if not isinstance(head, config.ClassificationHead):
        raise PellucidError(
            "this model has no head for classes: take a run that was trained to classify, or train "
            "one with objective.kind = Classification"
        )
    return head.names


def has_several_labels(run: Run) -> bool:
    """Whether a text may be of several classes, or of none."""
    objective = run.config.objective
    return isinstance(objective, config.Classification) and objective.multi_label


def _read(run: Run, texts: Sequence[str]) -> list[Cut]:
    framing, rows = Framing.for_classes(run.tokenizer), list[Cut]()
    for place, text in enumerate(texts, start=1):
        called = "text" if len(texts) == 1 else f"text {place}"
        if not text.strip():
            raise TextError(f"the {called} is empty: there is nothing to classify; leave it out")
        rows.append(framing.ids_within(text, run.model.context_length, called=called))
    return rows


@torch.inference_mode()
def _shares(run: Run, rows: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
    """A row for each text, a probability for each class."""
    run.model.eval()
    ids, padding = pad(rows, run.model.device)
    logits = run.model.class_logits(ids, padding=padding).cpu().double()  # MPS has no float64
    finite(logits, "the logits of the classes")
    return shares_of(logits, several=has_several_labels(run)).numpy()


def shares_of(
    logits: Float[torch.Tensor, "*texts classes"], *, several: bool
) -> Float[torch.Tensor, "*texts classes"]:
    """The probability of each class: each by itself where a text may be of `several`."""
    return torch.sigmoid(logits) if several else torch.softmax(logits, dim=-1)


def _classified(
    run: Run, text: str, names: Sequence[str], row: npt.NDArray[np.float64], truncated: bool
) -> Classified:
    shares = [ClassShare(name=n, probability=float(p)) for n, p in zip(names, row, strict=True)]
    shares.sort(key=lambda share: -share.probability)
    chosen = [share for share in shares if share.probability > 0.5]
    if not has_several_labels(run):
        chosen = shares[:1]
    return Classified(
        text=text,
        classes=tuple(share.name for share in chosen),
        shares=tuple(shares),
        truncated=truncated,
    )
