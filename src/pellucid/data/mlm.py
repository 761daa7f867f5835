"""Masked language modelling: tokens are masked, and an encoder learns to fill them in.

Which tokens of a window are masked is a function of a seed and of the window's position. So a
resumed run masks the same tokens, and each epoch masks others.

Source:
    Devlin et al. 2019, "BERT", section 3.1 and appendix A.1; whole words as in their later release.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.batches import IGNORED, TokenBatch
from pellucid.data.batches import WindowBatches, Windows, windows_in_turn
from pellucid.data.order import Indices
from pellucid.errors import TextError
from pellucid.tokenizers.framing import Framing
from pellucid.tokenizers.tokenizer import Tokenizer
from pellucid.tokenizers.vocabulary import Vocabulary, mask_id_of, vocabulary_of
from pellucid.typed import from_numpy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Masking:
    """Which share of the tokens is `chosen`, and which shares of those become what.

    The share `masked` of them is hidden behind the mask token, the share `replaced` behind an
    ordinary token drawn at random, and the rest is left as it is. `before` and `behind` frame each
    window, as a text is framed when the model is used.
    """

    chosen: float
    masked: float
    replaced: float
    whole_words: bool
    mask_id: int
    vocabulary: Vocabulary
    before: tuple[int, ...]
    behind: tuple[int, ...]

    @property
    def frame(self) -> int:
        """How many tokens stand around a window."""
        return len(self.before) + len(self.behind)


def masking_for(
    tokenizer: Tokenizer, *, chosen: float, masked: float, replaced: float, whole_words: bool
) -> Masking:
    """What is hidden of texts of this tokenizer.

    Raises:
        TextError: it has no mask token.
    """
    front, behind = _frame(tokenizer)
    return Masking(
        chosen=chosen,
        masked=masked,
        replaced=replaced,
        whole_words=whole_words,
        mask_id=mask_id_of(tokenizer),
        vocabulary=vocabulary_of(tokenizer),
        before=front,
        behind=behind,
    )


class MaskTokens:
    """The collator of masked language models: windows, framed, with other tokens masked each time.

    Special tokens are never chosen, and each other token can be chosen once an epoch.
    """

    def __init__(self, masking: Masking, seed: int) -> None:
        self._masking, self._seed = masking, seed

    def __call__(self, windows: Windows) -> TokenBatch:
        """The windows as the model reads them, and the tokens to predict."""
        masking, position = self._masking, windows.position
        rows = [
            _masked(ids, windows, row, masking, window_generator(self._seed, position + row))
            for row, ids in enumerate(windows.ids)
        ]
        ids = np.stack([masked_ids for masked_ids, _ in rows])
        targets = np.stack([row_targets for _, row_targets in rows])
        around = ((0, 0), (len(masking.before), len(masking.behind)))
        framed_targets = np.pad(targets, around, constant_values=IGNORED)
        before, behind = (
            np.broadcast_to(np.array(frame, np.int64), (len(ids), len(frame)))
            for frame in (masking.before, masking.behind)
        )
        # the frame belongs to the documents next to it
        documents = windows.documents
        framed = None if documents is None else np.pad(documents, around, mode="edge")
        return TokenBatch(
            ids=from_numpy(np.concatenate([before, ids, behind], axis=1)),
            targets=from_numpy(framed_targets),
            # if no token happens to be chosen, the loss is a sum of nothing divided by 1
            n_supervised=max(1, int((framed_targets != IGNORED).sum())),
            documents=None if framed is None else from_numpy(framed),
        )


def masked_batches(
    tokens: npt.NDArray[Any],
    masking: Masking,
    *,
    context_length: int,
    seed: int,
    documents: npt.NDArray[Any] | None = None,
) -> WindowBatches[TokenBatch]:
    """Windows of a text with masked tokens, for training.

    Args:
        tokens: the text, all documents end to end.
        masking: which tokens are masked.
        context_length: of a window with its frame.
        seed: of the order and of the masks.
        documents: where documents begin, to number the document of each token.

    Raises:
        TextError: the context has no room for a window, or the text is shorter than one.
    """
    length = _inner_length(masking, context_length)
    collate = MaskTokens(masking, seed)
    return WindowBatches(tokens, collate, length=length, seed=seed, documents=documents)


def masked_windows(
    tokens: npt.NDArray[Any],
    masking: Masking,
    *,
    context_length: int,
    batch_size: int,
    seed: int,
    documents: npt.NDArray[Any] | None = None,
) -> Iterator[TokenBatch]:
    """All windows in order, the same tokens masked every time: for evaluation.

    A text that is shorter than the context makes one shorter window.

    Args:
        tokens: the text, all documents end to end.
        masking: which tokens are masked.
        context_length: of a window with its frame.
        batch_size: rows of a batch.
        seed: of the masks.
        documents: where documents begin, to number the document of each token.
    """
    length = min(_inner_length(masking, context_length), len(tokens))
    windows = windows_in_turn(tokens, length=length, batch_size=batch_size, documents=documents)
    return map(MaskTokens(masking, seed), windows)


def window_generator(seed: int, position: int) -> np.random.Generator:
    """The randomness of one window; the counter keeps it apart from the randomness of the order."""
    return np.random.Generator(np.random.Philox(key=[seed, position], counter=[0, 0, 0, 1]))


def _masked(
    ids: Indices, windows: Windows, row: int, masking: Masking, random: np.random.Generator
) -> tuple[Indices, Indices]:
    """One window as it is seen, and the tokens to give back."""
    chosen = _chosen(ids, windows, row, masking, random)
    draws = random.random(len(chosen))
    random_ids = random.choice(masking.vocabulary.ordinary, len(chosen))
    replaced = np.where(draws < masking.masked + masking.replaced, random_ids, ids[chosen])
    masked_ids, targets = ids.copy(), np.full_like(ids, IGNORED)
    masked_ids[chosen] = np.where(draws < masking.masked, masking.mask_id, replaced)
    targets[chosen] = ids[chosen]
    return masked_ids, targets


def _chosen(
    ids: Indices, windows: Windows, row: int, masking: Masking, random: np.random.Generator
) -> Indices:
    """The places of the tokens to predict: whole words, or each token for itself.

    Of n words that can be chosen, as many are as the share says, rounded up or down by chance so
    that the expectation is exact.
    """
    special = masking.vocabulary.special[ids]
    words = np.arange(len(ids))
    if masking.whole_words:
        words = masking.vocabulary.words(ids)
        if windows.documents is not None:
            words = words + np.cumsum(np.diff(windows.documents[row], prepend=0) != 0)
    # a word is counted where its first token is, so that none is cut where windows overlap
    _, first, of_word = np.unique(words, return_index=True, return_inverse=True)
    possible = np.flatnonzero((windows.counted[row] & ~special)[first])
    n_chosen = int(masking.chosen * len(possible) + random.random())
    chosen_words = np.zeros(len(first), dtype=np.bool_)
    chosen_words[random.permutation(possible)[:n_chosen]] = True
    return np.flatnonzero(chosen_words[of_word])


def _inner_length(masking: Masking, context_length: int) -> int:
    length = context_length - masking.frame
    if length < 1:
        raise TextError(
            f"a context of {context_length} tokens has no room beside the {masking.frame} that "
            "frame a text: pass a longer one with --set model.context_length=128"
        )
    return length


def _frame(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What stands before and behind every text."""
    text = "a"
    inner, framed = tokenizer.encode(text), Framing(tokenizer).ids_of(text)
    start = next(
        place for place in range(len(framed)) if framed[place : place + len(inner)] == inner
    )
    return tuple(framed[:start]), tuple(framed[start + len(inner) :])
