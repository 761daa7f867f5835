"""Masked language modelling: tokens are masked, and an encoder learns to predict them.

The masked tokens of a window are a function of a seed and of the window's position. So a resumed
run masks the same tokens, and each epoch masks others.

Source:
    Devlin et al. 2019, "BERT", section 3.1 and appendix A.1; whole words as in their later release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.batches import IGNORED, TokenBatch
from pellucid.data.batches import WindowBatches, Windows, windows_in_turn
from pellucid.data.order import Indices, Ring
from pellucid.errors import TextError
from pellucid.tokenizers.framing import Framing
from pellucid.tokenizers.tokenizer import Tokenizer
from pellucid.tokenizers.vocabulary import Vocabulary, mask_id_of, vocabulary_of
from pellucid.typed import from_numpy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Masking:
    """The share of tokens to predict (`chosen`), and how the model sees them.

    Of the chosen tokens, the share `masked` becomes the mask token, the share `replaced` an
    ordinary token at random, and the others stay. `before` and `after` are the tokens that frame
    each window, as they frame a text when you use the model.

    Attributes:
        whole_words: whether all tokens of a word are chosen together.
        mask_id: the mask token.
        vocabulary: the ids that a random token is drawn from.
    """

    chosen: float
    masked: float
    replaced: float
    whole_words: bool
    mask_id: int
    vocabulary: Vocabulary
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def frame(self) -> int:
        """How many tokens frame a window."""
        return len(self.before) + len(self.after)


def masking_for(
    tokenizer: Tokenizer, *, chosen: float, masked: float, replaced: float, whole_words: bool
) -> Masking:
    """The masking of texts of this tokenizer.

    Args:
        tokenizer: has the mask token and the vocabulary.
        chosen: the share of tokens to predict.
        masked: the share of the chosen tokens that become the mask token.
        replaced: the share of the chosen tokens that become an ordinary token at random.
        whole_words: whether all tokens of a word are chosen together.

    Raises:
        TextError: it has no mask token.
    """
    front, after = _find_frame(tokenizer)
    return Masking(
        chosen=chosen,
        masked=masked,
        replaced=replaced,
        whole_words=whole_words,
        mask_id=mask_id_of(tokenizer),
        vocabulary=vocabulary_of(tokenizer),
        before=front,
        after=after,
    )


class MaskTokens:
    """The collator of masked language models: windows, framed, with other tokens masked each time.

    Special tokens are never chosen, and each other token can be chosen once an epoch.
    """

    def __init__(self, masking: Masking, seed: int) -> None:
        self._masking, self._seed = masking, seed

    def __call__(self, windows: Windows) -> TokenBatch:
        """The windows as the model sees them, and the tokens to predict."""
        masking, position = self._masking, windows.position
        rows = [
            _mask_window(ids, windows, row, masking, window_generator(self._seed, position + row))
            for row, ids in enumerate(windows.ids)
        ]
        ids = np.stack([masked_ids for masked_ids, _ in rows])
        targets = np.stack([row_targets for _, row_targets in rows])
        frame_widths = ((0, 0), (len(masking.before), len(masking.after)))
        framed_targets = np.pad(targets, frame_widths, constant_values=IGNORED)
        before, after = (
            np.broadcast_to(np.array(frame, np.int64), (len(ids), len(frame)))
            for frame in (masking.before, masking.after)
        )
        # the frame belongs to the documents next to it
        documents = windows.documents
        framed = None if documents is None else np.pad(documents, frame_widths, mode="edge")
        return TokenBatch(
            ids=from_numpy(np.concatenate([before, ids, after], axis=1)),
            targets=from_numpy(framed_targets),
            # if no token is chosen by chance, the loss is 0 / 1
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
    rings: Sequence[Ring] = (),
) -> WindowBatches[TokenBatch]:
    """Windows of a text with masked tokens, for training.

    Args:
        tokens: the text, all documents end to end.
        masking: which tokens are masked.
        context_length: of a window with its frame.
        seed: of the order and of the masks.
        documents: where documents begin, to number the document of each token.
        rings: the parts of the text that are mixed by weight.

    Raises:
        TextError: the context has no room for a window, or the text is shorter than one.
    """
    length = _inner_length(masking, context_length)
    collate = MaskTokens(masking, seed)
    return WindowBatches(
        tokens, collate, length=length, seed=seed, documents=documents, rings=rings
    )


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
    """The random generator of one window; its counter differs from the order's."""
    return np.random.Generator(np.random.Philox(key=[seed, position], counter=[0, 0, 0, 1]))


def _mask_window(
    ids: Indices, windows: Windows, row: int, masking: Masking, random: np.random.Generator
) -> tuple[Indices, Indices]:
    """One window as the model sees it, and its targets."""
    chosen = _choose_places(ids, windows, row, masking, random)
    draws = random.random(len(chosen))
    random_ids = random.choice(masking.vocabulary.ordinary, len(chosen))
    replaced = np.where(draws < masking.masked + masking.replaced, random_ids, ids[chosen])
    masked_ids, targets = ids.copy(), np.full_like(ids, IGNORED)
    masked_ids[chosen] = np.where(draws < masking.masked, masking.mask_id, replaced)
    targets[chosen] = ids[chosen]
    return masked_ids, targets


def _choose_places(
    ids: Indices, windows: Windows, row: int, masking: Masking, random: np.random.Generator
) -> Indices:
    """The places of the tokens to predict: whole words, or single tokens.

    The number of chosen words is their share, rounded up or down at random so that the expectation
    is exact.
    """
    special = masking.vocabulary.special[ids]
    words = np.arange(len(ids))
    if masking.whole_words:
        words = masking.vocabulary.words(ids)
        if windows.documents is not None:
            words = words + np.cumsum(np.diff(windows.documents[row], prepend=0) != 0)
    # a word counts in the window of its first token, so that overlapping windows cut none
    _, first, of_word = np.unique(words, return_index=True, return_inverse=True)
    possible = np.flatnonzero((windows.is_new[row] & ~special)[first])
    n_chosen = int(masking.chosen * len(possible) + random.random())
    chosen_words = np.zeros(len(first), dtype=np.bool_)
    chosen_words[random.permutation(possible)[:n_chosen]] = True
    return np.flatnonzero(chosen_words[of_word])


def _inner_length(masking: Masking, context_length: int) -> int:
    length = context_length - masking.frame
    if length < 1:
        raise TextError(
            f"a context of {context_length} tokens has no room for a text between the "
            f"{masking.frame} tokens that frame it: pass a longer one with --set "
            "model.context_length=128"
        )
    return length


def _find_frame(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tokens before and after every text."""
    text = "a"
    inner, framed = tokenizer.encode(text), Framing(tokenizer).ids_of(text)
    start = next(
        place for place in range(len(framed)) if framed[place : place + len(inner)] == inner
    )
    return tuple(framed[:start]), tuple(framed[start + len(inner) :])
