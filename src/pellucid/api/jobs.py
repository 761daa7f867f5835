"""One text that a client waits for: its prompt, how to sample it, and its tokens as they come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pellucid.generation import (
    OpenText,
    RowText,
    Sampling,
    choose,
    finite,
    log_p_of,
    penalise_repetition,
    row_generator,
)
from pellucid.inference import Prediction
from pellucid.tokenizers import Tokenizer

#: Tokens with their log P in nats.
LogPs = Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenToken:
    """A token that the model wrote.

    Attributes:
        token_id: the token.
        log_p: its log P in nats, before biases, penalties, temperature and filters.
        likeliest: the likeliest tokens in its place.
        start: where its text begins in the answer; None for the token that ended it.
        piece: the characters that it made certain.
        n_certain: how many characters of the answer are certain.
        stopped: "end", "stop" or "length" at the last token, else None.
    """

    token_id: int
    log_p: float
    likeliest: LogPs
    start: int | None
    piece: str
    n_certain: int
    stopped: str | None


@dataclass(frozen=True, slots=True)
class Scored:
    """The predictions of each token of a prompt but the first."""

    predictions: Sequence[Prediction]


@dataclass(frozen=True, slots=True)
class Failed:
    """The job ended with an error."""

    error: Exception


Event = WrittenToken | Scored | Failed


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """One text to write.

    Attributes:
        prompt: the tokens before it.
        source: the tokens that an encoder reads, for an encoder-decoder.
        sampling: how to sample. writes: whether to write at all, or only to score the prompt.
        ends: the tokens that end it.
        choice: which choice of its prompt it is; each draws its own random numbers.
        logit_bias: the numbers that are added to the logits of some tokens.
        likeliest: how many likeliest tokens come with each token.
        scores: whether to score the prompt first.
        emit: called with each event, by the thread that writes.
    """

    prompt: Sequence[int]
    source: Sequence[int] | None = None
    sampling: Sampling
    writes: bool = True
    ends: frozenset[int]
    choice: int
    logit_bias: Mapping[int, float]
    likeliest: int
    scores: bool = False
    emit: Callable[[Event], None]
    cancelled: threading.Event = field(default_factory=threading.Event)
    created: float = field(default_factory=time.monotonic)


class Writing:
    """A job whose text is open: it chooses the tokens."""

    def __init__(self, job: Job, text: OpenText, tokenizer: Tokenizer) -> None:
        self.job, self.text = job, text
        self.last_token = -1
        self._row = RowText(tokenizer, job.prompt, job.sampling, job.ends)
        self._random = row_generator(job.sampling.seed, job.choice)
        self._ids = list(job.prompt)

    @property
    def stopped(self) -> bool:
        """Whether the text is complete."""
        return self._row.stopped is not None

    @torch.inference_mode()
    def take(self, logits: Tensor) -> WrittenToken:
        """Choose the next token from its logits, (1, vocabulary).

        Raises:
            NonFiniteError: the logits are not finite.
        """
        job, row = self.job, self._row
        logits = finite(logits, "the logits of the next token")
        biased_logits = logits
        if job.logit_bias:
            biased_logits = logits.clone()
            biased_logits[0, list(job.logit_bias)] += torch.tensor(
                list(job.logit_bias.values()), device=logits.device
            )
        ids = torch.tensor([self._ids], device=logits.device)
        biased_logits = penalise_repetition(biased_logits, ids, job.sampling)
        uniform = torch.rand((1,), generator=self._random).to(logits.device)
        token = choose(biased_logits, uniform, job.sampling)
        token_id, log_p = int(token[0]), float(log_p_of(logits, token)[0])
        likeliest = likeliest_of(logits[0], job.likeliest, float(logits[0, token_id]) - log_p)
        piece = row.take(token_id)
        self._ids.append(token_id)
        self.last_token = token_id
        return WrittenToken(
            token_id=token_id,
            log_p=log_p,
            likeliest=likeliest,
            start=None if row.stopped == "end" else row.starts[-1],
            piece=piece,
            n_certain=row.n_returned,
            stopped=row.stopped,
        )


def likeliest_of(logits: Tensor, n: int, log_z: float) -> LogPs:
    """The `n` likeliest tokens with their log P, from logits (vocabulary,) and log Z."""
    if n == 0:
        return ()
    values, tokens = logits.topk(min(n, len(logits)))
    pairs = zip(tokens, values, strict=True)
    return tuple((int(token), float(value) - log_z) for token, value in pairs)
