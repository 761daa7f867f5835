"""The class of a text, by a run that was trained to classify.

If a text has one class, the probabilities of the classes add up to 1 (softmax), and the likeliest
class is the text's. With several labels each class has its own probability (sigmoid), and a text
has all classes above one half, which may be none.
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
    """A class, and the probability that a text has it.

    Attributes:
        name: the name of the class.
        probability: between 0 and 1.
    """

    name: str
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """A text and its class; with several labels, any number of classes.

    Attributes:
        text: the text.
        classes: the classes that the text has.
        shares: every class with its probability, the likeliest first.
        truncated: whether the text was longer than the context, so that the model did not see its
            end.
    """

    text: str
    classes: tuple[str, ...]
    shares: tuple[ClassShare, ...]
    truncated: bool


def classify(
    run: Run, texts: str | Sequence[str], *, batch_size: int = 32, force: bool = False
) -> list[Classified]:
    """The class of each text, with its probability.

    The model reads padded batches; neither padding nor the other texts change a result.

    Args:
        run: a run of a classifier.
        texts: one text, or several.
        batch_size: how many texts the model reads at once.
        force: read them even if pellucid expects to need more memory than is free.

    Raises:
        ConfigError: `batch_size` is less than 1.
        TextError: a text is empty.
        PellucidError: the model is no classifier.
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
    for start in range(0, len(order), batch_size):
        places = order[start : start + batch_size]
        shares = _shares(run, [rows[place].ids for place in places])
        for place, row in zip(places, shares, strict=True):
            by_place[place] = _classified(run, texts[place], names, row, rows[place].truncated)
    return [by_place[place] for place in range(len(texts))]


def class_names(run: Run) -> tuple[str, ...]:
    """The names of a classifier's classes.

    Raises:
        PellucidError: the model is no classifier.
    """
    head = run.config.model.head
    if not isinstance(head, config.ClassificationHead):
        raise PellucidError(
            "this model has no head for classes: take a run that was trained to classify, or train "
            "one with objective.kind = Classification"
        )
    return head.names


def has_several_labels(run: Run) -> bool:
    """Whether a text may have several classes, or none."""
    objective = run.config.objective
    return isinstance(objective, config.Classification) and objective.multi_label


def _read(run: Run, texts: Sequence[str]) -> list[Cut]:
    framing, rows = Framing.for_classes(run.require_tokenizer()), list[Cut]()
    for place, text in enumerate(texts, start=1):
        label = "text" if len(texts) == 1 else f"text {place}"
        if not text.strip():
            raise TextError(f"the {label} is empty: there is nothing to classify; leave it out")
        rows.append(framing.ids_within(text, run.model.context_length, name=label))
    return rows


@torch.inference_mode()
def _shares(run: Run, rows: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
    """The probabilities, (texts, classes)."""
    run.model.eval()
    ids, padding = pad(rows, run.model.device)
    logits = run.model.class_logits(ids, padding=padding).cpu().double()  # MPS has no float64
    finite(logits, "the logits of the classes")
    return shares_of(logits, multi_label=has_several_labels(run)).numpy()


def shares_of(
    logits: Float[torch.Tensor, "*texts classes"], *, multi_label: bool
) -> Float[torch.Tensor, "*texts classes"]:
    """The probabilities of the classes; with `multi_label` they do not add up to 1."""
    return torch.sigmoid(logits) if multi_label else torch.softmax(logits, dim=-1)


def _classified(
    run: Run, text: str, names: Sequence[str], row: npt.NDArray[np.float64], truncated: bool
) -> Classified:
    shares = [ClassShare(name=n, probability=float(p)) for n, p in zip(names, row, strict=True)]
    shares.sort(key=lambda share: -share.probability)
    winners = [share for share in shares if share.probability > 0.5]
    if not has_several_labels(run):
        winners = shares[:1]
    return Classified(
        text=text,
        classes=tuple(share.name for share in winners),
        shares=tuple(shares),
        truncated=truncated,
    )
