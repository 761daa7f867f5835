"""Span corruption: spans are cut out of a text, and the model writes them.

    text      Thank you for inviting me to your party last week
    source    Thank you <0> me to your party <1> week </s>
    target    <0> for inviting <1> last </s>

The spans of a window are a function of a seed and of the window's position.

Source:
    Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer", sections 3.1.4 and 3.3.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.batches import PairBatch
from pellucid.data.batches import WindowBatches, Windows, windows_in_turn
from pellucid.data.mlm import window_generator
from pellucid.data.order import Indices, Ring
from pellucid.errors import TextError
from pellucid.tokenizers.tokenizer import Tokenizer
from pellucid.tokenizers.vocabulary import sentinels_of
from pellucid.typed import from_numpy


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """The share of tokens to cut out, in spans of `mean_span` tokens on average.

    Sources and targets end with `end_id`; the decoder begins with `start_id`.

    Attributes:
        corrupted: the share of tokens to cut out.
        sentinels: ids that stand for the spans, in order.
    """

    corrupted: float
    mean_span: float
    sentinels: tuple[int, ...]
    start_id: int
    end_id: int

    def cut_out(self, length: int) -> tuple[int, int]:
        """How many tokens of a window are cut out, and in how many spans.

        At least one token is cut out and at least one stays. No two spans touch, so there is a
        stretch of text before each.
        """
        n_tokens = min(max(round(length * self.corrupted), 1), length - 1)
        n_spans = max(round(n_tokens / self.mean_span), 1)
        return n_tokens, min(n_spans, n_tokens, length - n_tokens)

    def window(self, context_length: int) -> int:
        """The longest window whose source and target fit into the context.

        It is longer than the context because a sentinel replaces each span; the number of sentinels
        limits it.

        Raises:
            TextError: no window fits.
        """
        longest = 0
        for length in range(2, 16 * context_length):
            n_tokens, n_spans = self.cut_out(length)
            row_length = max(length - n_tokens, n_tokens) + n_spans + 1
            if row_length > context_length or n_spans > len(self.sentinels):
                break
            longest = length
        if not longest:
            raise TextError(
                f"a context of {context_length} tokens has no room for a text and a span: pass a "
                "longer one with --set model.context_length=128"
            )
        return longest


def spans_for(tokenizer: Tokenizer, *, corrupted: float, mean_span: float, start_id: int) -> Spans:
    """The spans to cut out of texts of this tokenizer.

    Args:
        tokenizer: has the sentinels.
        corrupted: the share of tokens to cut out.
        mean_span: the mean length of a span, in tokens.
        start_id: the token that starts the decoder.

    Raises:
        TextError: the tokenizer has no sentinels.
    """
    return Spans(
        corrupted=corrupted,
        mean_span=mean_span,
        sentinels=tuple(sentinels_of(tokenizer)),
        start_id=start_id,
        end_id=tokenizer.end_id,
    )


class CorruptSpans:
    """The collator of span corruption: windows with other spans cut out each time."""

    def __init__(self, spans: Spans, seed: int) -> None:
        self._spans, self._seed = spans, seed

    def __call__(self, windows: Windows) -> PairBatch:
        """The windows without their spans, and the spans to write.

        Raises:
            TextError: the windows have one token.
        """
        spans, length = self._spans, windows.ids.shape[1]
        if length < 2:
            raise TextError(
                "a text of one token is too short to cut a span out of it: pass more text"
            )
        sources: list[Indices] = []
        targets: list[Indices] = []
        for row, ids in enumerate(windows.ids):
            random = window_generator(self._seed, windows.position + row)
            cut_mask = random_spans(length, *spans.cut_out(length), random)
            sources.append(_with_sentinels(ids, cut_mask, spans))
            targets.append(_with_sentinels(ids, ~cut_mask, spans))
        source, target = np.stack(sources), np.stack(targets)
        ids = np.concatenate([np.full((len(target), 1), spans.start_id), target[:, :-1]], axis=1)
        return PairBatch(
            source=from_numpy(source),
            source_padding=from_numpy(np.ones(source.shape, dtype=np.bool_)),
            ids=from_numpy(ids),
            targets=from_numpy(target),
            n_supervised=target.size,
        )


def span_batches(
    tokens: npt.NDArray[Any],
    spans: Spans,
    *,
    context_length: int,
    seed: int,
    rings: Sequence[Ring] = (),
) -> WindowBatches[PairBatch]:
    """Windows of a text with spans cut out, for training.

    Args:
        tokens: the text, all documents end to end.
        spans: how much to cut out.
        context_length: of the source and of the target.
        seed: of the order and of the spans.
        rings: the parts of the text that are mixed by weight.

    Raises:
        TextError: the context has no room for a window, or the text is shorter than one.
    """
    length = spans.window(context_length)
    corrupt = CorruptSpans(spans, seed)
    return WindowBatches(tokens, corrupt, length=length, seed=seed, rings=rings)


def span_windows(
    tokens: npt.NDArray[Any], spans: Spans, *, context_length: int, batch_size: int, seed: int
) -> Iterator[PairBatch]:
    """All windows in order, the same spans cut out every time: for evaluation.

    A text that is shorter than a window makes one shorter window.

    Args:
        tokens: the text, all documents end to end.
        spans: how much to cut out.
        context_length: of the source and of the target.
        batch_size: rows of a batch.
        seed: of the spans.
    """
    length = min(spans.window(context_length), len(tokens))
    windows = windows_in_turn(tokens, length=length, batch_size=batch_size)
    return map(CorruptSpans(spans, seed), windows)


def random_spans(
    length: int, n_tokens: int, n_spans: int, random: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """True where a window of `length` tokens is cut out: `n_tokens` of them, in `n_spans` spans.

    The tokens that stay and the tokens to cut out are each divided at random into `n_spans`
    stretches of at least one token, all divisions equally likely. The stretches alternate, and the
    window begins with one that stays.
    """
    gap_lengths = _divide(length - n_tokens, n_spans, random)
    span_lengths = _divide(n_tokens, n_spans, random)
    lengths = np.stack([gap_lengths, span_lengths], axis=1).ravel()
    return np.repeat(np.arange(2 * n_spans) % 2 == 1, lengths)


def _divide(total: int, n: int, random: np.random.Generator) -> Indices:
    cuts = np.sort(random.permutation(total - 1)[: n - 1]) + 1
    return np.diff(cuts, prepend=0, append=total)


def _with_sentinels(ids: Indices, cut_mask: npt.NDArray[np.bool_], spans: Spans) -> Indices:
    """The ids with a sentinel in place of each span, and the end token."""
    span_starts = cut_mask & ~np.concatenate([[False], cut_mask[:-1]])
    sentinels = np.array(spans.sentinels)[np.maximum(np.cumsum(span_starts) - 1, 0)]
    return np.append(np.where(span_starts, sentinels, ids)[span_starts | ~cut_mask], spans.end_id)
