"""The probability of a text under a model: of each token, given the tokens before it.

A text longer than the context is read in windows. They are the windows in which the model sees its
own text while it writes (`pellucid.generation.window_start`), so you score a text as it was
written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from pellucid.errors import ConfigError, TextError
from pellucid.generation import finite, window_start
from pellucid.model import Transformer
from pellucid.saved_runs.inference_memory import check_reading
from pellucid.saved_runs.load import Run
from pellucid.saved_runs.requirements import refuse_to_predict
from pellucid.tokenizers import Tokenizer

#: How many places are turned into a distribution over the vocabulary at once, to bound memory.
_PLACES_AT_ONCE = 128


@dataclass(frozen=True, slots=True)
class Likely:
    """A token that may come next, and its probability.

    Attributes:
        token_id: the id of the token.
        token: its text.
        probability: between 0 and 1.
    """

    token_id: int
    token: str
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The tokens that a model expects next.

    Attributes:
        n_tokens: how many tokens the model has read, including begin-of-text.
        window_start: the first token of its window; above 0 once they outgrow its context.
        log_p: log P of the token that follows in the text, in nats; None after the last.
        likeliest: the likeliest tokens.
    """

    n_tokens: int
    window_start: int
    log_p: float | None
    likeliest: tuple[Likely, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredToken:
    """A token of a text and log P of it given those before; `position` counts from 1.

    Attributes:
        token_id: the id of the token.
        token: its text.
        log_p: in nats.
        window_start: the place of the first token that the model saw.
    """

    position: int
    token_id: int
    token: str
    log_p: float
    window_start: int

    @property
    def probability(self) -> float:
        """e^log_p."""
        return math.exp(self.log_p)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Log P of a text after begin-of-text; the end of the text is not predicted.

    `is_altered` says that the tokens decode to another text.

    Attributes:
        text: the text.
        tokens: each token with its log P.
        n_bytes: bytes of the text, as UTF-8.
        unknown_tokens: tokens that are the unknown token.
        context_length: the most tokens that the model sees at once.
    """

    text: str
    tokens: tuple[ScoredToken, ...]
    n_bytes: int
    unknown_tokens: int
    is_altered: bool
    context_length: int

    @property
    def log_p(self) -> float:
        """log P(text) = sum_t log P(x_t | x_1 ... x_t-1), in nats."""
        return math.fsum(token.log_p for token in self.tokens)

    @property
    def perplexity(self) -> float:
        """e^(-log P / tokens): as if guessing evenly among so many; infinite past float64."""
        mean = -self.log_p / len(self.tokens)
        return math.exp(mean) if mean < math.log(np.finfo(np.float64).max) else math.inf

    @property
    def bits_per_byte(self) -> float:
        """All bits over all bytes: comparable across tokenizers, where nothing is hidden."""
        return -self.log_p / math.log(2) / self.n_bytes

    @property
    def windows(self) -> int:
        """How many windows it took to read the text."""
        return len({token.window_start for token in self.tokens})

    def products(self) -> Iterator[tuple[str, float, int | None]]:
        """The raw product of all probabilities by float width, and the position where it became 0.

        It underflows where `log_p` does not: why logarithms are added instead.
        """
        for dtype in (np.float32, np.float64):
            shares = np.asarray([token.probability for token in self.tokens], dtype=dtype)
            with np.errstate(under="ignore"):
                products = np.cumprod(shares, dtype=dtype)
            zeros = np.flatnonzero(products == 0)
            yield dtype.__name__, float(products[-1]), int(zeros[0]) + 1 if zeros.size else None


@torch.inference_mode()
def predictions(
    model: Transformer, tokenizer: Tokenizer | None, ids: Sequence[int], *, top: int, first: int = 1
) -> Iterator[Prediction]:
    """The predictions of a model after the first tokens, after one more, ..., after all.

    Args:
        model: a decoder.
        tokenizer: its tokenizer; without one, tokens are written as their ids.
        ids: the token ids of a text.
        top: how many of the likeliest tokens each prediction names.
        first: after how many tokens the first prediction is made.

    Raises:
        PellucidError: the model is no decoder.
        NonFiniteError: its logits are not finite.
    """
    refuse_to_predict(model)
    device = model.device
    context = model.context_length
    lengths = range(first, len(ids) + 1)
    for start, group in groupby(lengths, key=lambda length: window_start(length, context)):
        group_lengths = list(group)
        window = torch.tensor([ids[start : group_lengths[-1]]], device=device)
        hidden = model.hidden_states(window)[0, group_lengths[0] - 1 - start :]
        for begin in range(0, len(group_lengths), _PLACES_AT_ONCE):
            logits = model.logits(hidden[begin : begin + _PLACES_AT_ONCE])
            logits = finite(logits, "the logits of the text")
            log_p = torch.log_softmax(logits.cpu().double(), dim=-1)  # MPS has no float64
            for length, row in zip(
                group_lengths[begin : begin + _PLACES_AT_ONCE], log_p, strict=True
            ):
                next_log_p = float(row[ids[length]]) if length < len(ids) else None
                yield _prediction(tokenizer, row, length, start, next_log_p, top)


def _prediction(
    tokenizer: Tokenizer | None,
    log_p: Tensor,
    length: int,
    start: int,
    next_log_p: float | None,
    top: int,
) -> Prediction:
    values, tokens = log_p.topk(min(top, log_p.shape[-1]))
    return Prediction(
        n_tokens=length,
        window_start=start,
        log_p=next_log_p,
        likeliest=tuple(
            Likely(int(token), written_token(tokenizer, int(token)), math.exp(value))
            for token, value in zip(tokens, values, strict=True)
        ),
    )


def written_token(tokenizer: Tokenizer | None, token_id: int) -> str:
    """A token as text; without a tokenizer, its id."""
    return str(token_id) if tokenizer is None else tokenizer.token(token_id)


def score(run: Run, text: str, *, force: bool = False) -> Score:
    """Log P of every token of `text` given those before it, the first given begin-of-text.

    Args:
        run: a run of a decoder.
        text: the text.
        force: read it even if pellucid expects to need more memory than is free.

    Raises:
        TextError: the text is empty, or holds half a character.
    """
    tokenizer = run.require_tokenizer()
    ids = tokenizer.encode_prompt(text, name="text")
    if len(ids) == 1:
        raise TextError("the text is empty: there is no token to score; pass some text")
    _check(run, len(ids), force=force)
    read = predictions(run.model, tokenizer, ids, top=0)
    return Score(
        text=text,
        tokens=tuple(
            ScoredToken(
                position=prediction.n_tokens,
                token_id=token_id,
                token=tokenizer.token(token_id),
                log_p=log_p,
                window_start=prediction.window_start,
            )
            for prediction, token_id in zip(read, ids[1:], strict=False)
            if (log_p := prediction.log_p) is not None
        ),
        n_bytes=len(text.encode()),
        is_altered=tokenizer.decode(ids) != text,
        unknown_tokens=0 if tokenizer.unknown_id is None else ids.count(tokenizer.unknown_id),
        context_length=run.model.context_length,
    )


def next_token(run: Run, text: str, *, top: int = 10, force: bool = False) -> Prediction:
    """The likeliest next tokens after a text.

    Args:
        run: a run of a decoder.
        text: the text; it may be empty.
        top: how many tokens to return.
        force: read the text even if pellucid expects to need more memory than is free.

    Raises:
        ConfigError: `top` is less than 1.
        TextError: the text holds half a character.
    """
    if top < 1:
        raise ConfigError(f"top must be at least 1, was {top}")
    tokenizer = run.require_tokenizer()
    ids = tokenizer.encode_prompt(text, name="text")
    _check(run, len(ids), force=force)
    (last,) = predictions(run.model, tokenizer, ids, top=top, first=len(ids))
    return last


def _check(run: Run, n_tokens: int, *, force: bool) -> None:
    length = min(n_tokens, run.model.context_length)
    lower = "the length of the text"
    check_reading(run, sequences=1, length=length, lower=lower, logits=True, force=force)
