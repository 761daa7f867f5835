"""An interpolated n-gram model: the bar that a neural language model has to clear.

Comes in: documents as sequences of ids, a part to count and a part to predict. Goes out: the bits
per byte that the better of two smoothings, chosen on a slice of the training documents, spends on
the held-out part. Does not know: text, tokenizers (bytes are ids too), pellucid.

The model predicts every id of a document and then one end-of-text symbol; the nats of the latter
count, its bytes do not. Each context is a suffix of the one an order above it, so n-grams get ids
order by order, `id(n-gram) = index of (oldest symbol, id of its (n-1)-gram suffix)`, and no key
outgrows 64 bits.

Source: Chen and Goodman, An Empirical Study of Smoothing Techniques for Language Modeling (1998):
interpolated modified Kneser-Ney with one discount for counts of 1, 2 and 3 or more (section 3,
equations 26 and 27), and Witten-Bell (section 2.6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Documents = Sequence[Sequence[int]]

KNESER_NEY, WITTEN_BELL = "kneser-ney", "witten-bell"


def held_out_bits_per_byte(
    train: Documents, held_out: Documents, n_bytes: int, order: int = 5, vocab_size: int = 256
) -> float:
    """Bits per byte on `held_out` of the smoothing that did better on a tenth of `train`."""
    cut = len(train) - max(len(train) // 10, 1)
    trial = fit(train[:cut], order, vocab_size)
    best = min((KNESER_NEY, WITTEN_BELL), key=lambda kind: total_nats(trial, train[cut:], kind))
    return total_nats(fit(train, order, vocab_size), held_out, best) / math.log(2) / n_bytes


@dataclass(frozen=True)
class Level:
    """The n-grams of one order, and what smoothing needs to know of their contexts."""

    keys: Ints  # sorted: oldest symbol * (number of suffixes) + id of the suffix
    n_suffixes: int
    statistics: dict[str, tuple[Floats, Floats, Floats]]  # smoothing -> (gain, norm, escape)


@dataclass(frozen=True)
class NGrams:
    """`levels[n]` holds the (n + 1)-grams; ids below `vocab_size`, then end and begin of text."""

    levels: list[Level]
    vocab_size: int

    @property
    def order(self) -> int:
        return len(self.levels)


def fit(train: Documents, order: int, vocab_size: int) -> NGrams:
    """Count every n-gram up to `order`, and turn the counts into discounted gains."""
    stream = padded(train, order, vocab_size)
    begin = vocab_size + 1
    ids: list[Ints] = []
    keys: list[Ints] = []
    sizes: list[int] = []
    shorter_ids, n_below = np.zeros_like(stream), 1
    for n in range(order):
        unique, shorter_ids = np.unique(
            shifted(stream, n) * n_below + shorter_ids, return_inverse=True
        )
        keys.append(unique)
        sizes.append(n_below)
        ids.append(shorter_ids)
        n_below = len(unique)

    levels: list[Level] = []
    real = stream != begin  # a begin of text is context, never predicted
    for n in range(order):
        contexts = shifted(ids[n - 1], 1) if n else np.zeros_like(stream)
        n_contexts = len(keys[n - 1]) if n else 1
        context_of = np.zeros(len(keys[n]), np.int64)
        context_of[ids[n][real]] = contexts[real]
        raw = np.bincount(ids[n][real], minlength=len(keys[n]))
        counts = raw if n == order - 1 else continuations(keys[n + 1], raw)
        statistics = {
            KNESER_NEY: kneser_ney(counts, context_of, n_contexts),
            WITTEN_BELL: witten_bell(raw, context_of, n_contexts),
        }
        levels.append(Level(keys[n], sizes[n], statistics))
    return NGrams(levels, vocab_size)


def padded(documents: Documents, order: int, vocab_size: int) -> Ints:
    """One stream in which no predicted n-gram reaches into the document before."""
    end, begin = [vocab_size], [vocab_size + 1] * max(order - 1, 1)
    return np.concatenate([np.array([*begin, *document, *end], np.int64) for document in documents])


def shifted(values: Ints, by: int) -> Ints:
    """`values[i - by]` at `i`; the wrapped head lies in padding and is never looked at."""
    return np.roll(values, by)


def continuations(keys_above: Ints, raw: Ints) -> Ints:
    """In how many distinct one-symbol-older contexts an n-gram was seen, 0 where it never was."""
    return np.where(raw > 0, np.bincount(keys_above % len(raw), minlength=len(raw)), 0)


def kneser_ney(counts: Ints, context_of: Ints, n_contexts: int) -> tuple[Floats, Floats, Floats]:
    """Gain of each n-gram, norm and escape of each context: p = (gain + escape lower) / norm."""
    n1, n2, n3, n4 = (max(int((counts == k).sum()), 1) for k in (1, 2, 3, 4))
    y = n1 / (n1 + 2 * n2)
    estimates = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    # Where counts of counts are too few to estimate from, a discount stays between 0.1 and its k.
    discounts = [0.0] + [min(max(d, 0.1), k) for k, d in enumerate(estimates, start=1)]
    discount = np.array(discounts)[np.minimum(counts, 3)]
    norm = np.bincount(context_of, counts, n_contexts)
    return counts - discount, norm, np.bincount(context_of, discount, n_contexts)


def witten_bell(counts: Ints, context_of: Ints, n_contexts: int) -> tuple[Floats, Floats, Floats]:
    """The same three for Witten-Bell: a context escapes as often as it met something new."""
    kinds = np.bincount(context_of, counts > 0, n_contexts)
    norm = np.bincount(context_of, counts, n_contexts) + kinds
    return counts.astype(np.float64), norm, kinds


def probabilities(model: NGrams, stream: Ints, kind: str) -> Floats:
    """Probability of each symbol of a padded stream, given those before it."""
    p = np.full(len(stream), 1.0 / (model.vocab_size + 1))
    shorter_ids = contexts = np.zeros(len(stream), np.int64)  # the empty context has id 0
    for n, level in enumerate(model.levels):
        gain, norm, escape = level.statistics[kind]
        ids = looked_up(level, shifted(stream, n), shorter_ids)
        total = np.where(contexts >= 0, norm[contexts], 0)
        is_known = total > 0
        gained = np.where(ids >= 0, gain[ids], 0)
        p[is_known] = (gained[is_known] + escape[contexts[is_known]] * p[is_known]) / total[
            is_known
        ]
        shorter_ids, contexts = ids, shifted(ids, 1)
    return p


def looked_up(level: Level, oldest: Ints, suffixes: Ints) -> Ints:
    """Ids of n-grams by oldest symbol and suffix; -1 for what training never met."""
    keys = np.where(suffixes >= 0, oldest * level.n_suffixes + suffixes, -1)
    positions = np.minimum(np.searchsorted(level.keys, keys), len(level.keys) - 1)
    return np.where(level.keys[positions] == keys, positions, -1)


def total_nats(model: NGrams, documents: Documents, kind: str) -> float:
    """Summed surprise of the documents' ids and their ends of text."""
    stream = padded(documents, model.order, model.vocab_size)
    surprise = -np.log(probabilities(model, stream, kind))
    return float(surprise[stream != model.vocab_size + 1].sum())


def next_distribution(model: NGrams, context: Sequence[int], kind: str) -> Floats:
    """The whole distribution after `context`, end of text last: it sums to one."""
    begin = [model.vocab_size + 1] * max(model.order - 1, 1)
    rows = [[*begin, *context, symbol] for symbol in range(model.vocab_size + 1)]
    stream = np.array(rows, np.int64)
    return probabilities(model, stream.ravel(), kind).reshape(stream.shape)[:, -1]
