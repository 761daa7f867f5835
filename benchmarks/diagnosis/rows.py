"""Text as numbers, and batches of it: for decoders, for encoders, and for both.

Comes in: documents. Goes out: batches that depend on a seed and an update alone. It does not know
any model, nor any fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.data.standard_library import standard_library_docs

UNKNOWN, PAD, END, MASK = 0, 1, 2, 3
_SPECIAL = 4
#: Of the tokens an encoder reads: how many are asked for, and what becomes of them.
TARGET_SHARE, MASKED, REPLACED = 0.5, 0.4, 0.1
#: So many characters are read: enough for every run to see other text.
_READ = 1_500_000
_HELD_OUT = 0.1

Form = Literal["plain", "padded", "packed", "ended", "masked", "pairs"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows and their targets; a field is None if the batch has no such part."""

    ids: Tensor
    labels: Tensor
    padding: Tensor | None = None
    documents: Tensor | None = None
    source: Tensor | None = None

    def parts(self, count: int) -> list[Batch]:
        """The batch in equal parts."""
        size = self.ids.shape[0] // count
        return [self.cut(slice(number * size, (number + 1) * size)) for number in range(count)]

    def cut(self, rows: slice) -> Batch:
        """Some rows."""
        tensors = (self.ids, self.labels, self.padding, self.documents, self.source)
        ids, labels, padding, documents, source = (None if t is None else t[rows] for t in tensors)
        assert ids is not None
        assert labels is not None
        return Batch(ids, labels, padding, documents, source)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Ids of a text, the part that is trained on and the part that is held out."""

    train: Tensor
    held_out: Tensor
    vocab_size: int


def corpus_of(texts: Iterable[str], vocab_size: int = 96) -> Corpus:
    """The texts end to end, with an end after each; characters that are rare are unknown."""
    texts = list(texts)
    counts = Counter(character for text in texts for character in text)
    frequent = [character for character, _ in counts.most_common(vocab_size - _SPECIAL)]
    number = {character: place + _SPECIAL for place, character in enumerate(sorted(frequent))}
    ids = [
        token_id
        for text in texts
        for token_id in (*(number.get(c, UNKNOWN) for c in text), END)
        if text
    ]
    tokens = torch.tensor(ids)
    cut = int(len(ids) * (1 - _HELD_OUT))
    return Corpus(tokens[:cut], tokens[cut:], vocab_size)


def corpus_at(folder: Path, vocab_size: int = 96) -> Corpus:
    """The standard library's documentation, kept at `folder` once it was read."""
    file = folder / f"text-{vocab_size}.npz"
    if not file.exists():
        n_characters, texts = 0, []
        for document in standard_library_docs():
            texts.append(document.text)
            n_characters += len(document.text)
            if n_characters > _READ:
                break
        corpus = corpus_of(texts, vocab_size)
        folder.mkdir(parents=True, exist_ok=True)
        new_file = folder / f"text-{vocab_size}-{np.random.default_rng().integers(1 << 30)}.npz"
        np.savez(new_file, train=corpus.train.numpy(), held_out=corpus.held_out.numpy())
        new_file.replace(file)
    with np.load(file) as arrays:
        return Corpus(
            torch.from_numpy(arrays["train"]), torch.from_numpy(arrays["held_out"]), vocab_size
        )


@dataclass(frozen=True, slots=True)
class Feed:
    """Batches of one form, each from its update's number and a seed.

    `of` hands out the batch of an update; faults put their own around it.
    """

    corpus: Corpus
    form: Form
    rows: int
    time: int
    seed: int
    #: texts of an easier kind come first: so many updates of short windows from one place
    pool: int | None = None

    def batch(self, update: int) -> Batch:
        """What the update learns from."""
        draws = torch.Generator().manual_seed(self.seed * 100_003 + update)
        return self._make_batch(self.corpus.train, draws, self.rows)

    def held_out(self, rows: int = 64) -> Batch:
        """The same rows for every training of this form."""
        return self._make_batch(self.corpus.held_out, torch.Generator().manual_seed(7), rows)

    def _make_batch(self, text: Tensor, draws: torch.Generator, rows: int) -> Batch:
        text = text if self.pool is None or text is self.corpus.held_out else text[: self.pool]
        return _FORMS[self.form](text, draws, rows, self.time)


def _windows(text: Tensor, draws: torch.Generator, rows: int, time: int) -> Tensor:
    starts = torch.randint(len(text) - time, (rows, 1), generator=draws)
    return text[starts + torch.arange(time)]


def _plain(text: Tensor, draws: torch.Generator, rows: int, time: int) -> Batch:
    windows = _windows(text, draws, rows, time + 1)
    return Batch(windows[:, :-1], windows[:, 1:].clone())


def _padded(text: Tensor, draws: torch.Generator, rows: int, time: int) -> Batch:
    """Filled up on the left, as for generation: there a causal mask does not hide the filling."""
    plain_batch = _plain(text, draws, rows, time)
    length = torch.randint(time // 3, time + 1, (rows, 1), generator=draws)
    real = torch.arange(time) >= time - length
    return Batch(
        plain_batch.ids.masked_fill(~real, PAD),
        plain_batch.labels.masked_fill(~real, IGNORED),
        real,
    )


def _ended(text: Tensor, draws: torch.Generator, rows: int, time: int) -> Batch:
    """Texts of several lengths that end, filled up on the right."""
    plain_batch = _plain(text, draws, rows, time)
    length = torch.randint(time // 3, time - 1, (rows, 1), generator=draws)
    places = torch.arange(time)
    ids = torch.where(places == length, END, plain_batch.ids).masked_fill(places > length, PAD)
    labels = torch.full_like(ids, IGNORED)
    labels[:, :-1] = ids[:, 1:]
    labels[ids == END] = IGNORED
    return Batch(ids, labels.masked_fill(labels == PAD, IGNORED), places <= length)


def _packed(text: Tensor, draws: torch.Generator, rows: int, time: int) -> Batch:
    """Four texts in a row, kept apart."""
    size = time // 4
    plain_batch = _plain(text, draws, rows * 4, size)
    documents = torch.arange(time).div(size, rounding_mode="floor").expand(rows, -1)
    return Batch(
        plain_batch.ids.reshape(rows, -1), plain_batch.labels.reshape(rows, -1), None, documents
    )


def _masked(text: Tensor, draws: torch.Generator, rows: int, time: int) -> Batch:
    """Half of the tokens are asked for; of those some are hidden, some are others, some stay."""
    ids = _windows(text, draws, rows, time)
    chance = torch.rand(ids.shape, generator=draws)
    length = torch.randint(time // 2, time + 1, (rows, 1), generator=draws)
    real = torch.arange(time) < length
    is_target = (chance < TARGET_SHARE) & real
    inputs = ids.masked_fill(chance < TARGET_SHARE * MASKED, MASK)
    others = ids.flip(0)
    is_replaced = (chance >= TARGET_SHARE * MASKED) & (chance < TARGET_SHARE * (MASKED + REPLACED))
    inputs = torch.where(is_replaced, others, inputs).masked_fill(~real, PAD)
    return Batch(inputs, torch.where(is_target, ids, IGNORED), real)


def _pairs(text: Tensor, draws: torch.Generator, rows: int, time: int) -> Batch:
    """A text, and its continuation."""
    windows = _windows(text, draws, rows, time + time // 2 + 1)
    continuation = windows[:, time - 1 :]
    return Batch(
        continuation[:, :-1].clone(), continuation[:, 1:].clone(), source=windows[:, :time].clone()
    )


_Make = Callable[[Tensor, torch.Generator, int, int], Batch]
_FORMS: dict[Form, _Make] = {
    "plain": _plain,
    "padded": _padded,
    "packed": _packed,
    "ended": _ended,
    "masked": _masked,
    "pairs": _pairs,
}
