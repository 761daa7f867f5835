"""The choices of a response, built from the events of their jobs, whole or piece by piece."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.api.jobs import LogPs, Scored, WrittenToken
from pellucid.api.plan import Prompt
from pellucid.explain.sentence import Spelling
from pellucid.inference import Prediction
from pellucid.tokenizers import Tokenizer

#: JSON has no -inf; OpenAI's servers write this for an impossible token.
_LEAST_LOG_P = -9999.0
_REASONS = {"end": "stop", "stop": "stop", "length": "length"}


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """A token in a response.

    Attributes:
        token_id: the token.
        log_p: its log P in nats; None for the first token of a prompt.
        likeliest: the likeliest tokens in its place.
        start: where its text begins.
        ends: whether it ends the text, and so is no part of it.
    """

    token_id: int
    log_p: float | None
    likeliest: LogPs
    start: int
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Delta:
    """A new piece of a choice: its text, its tokens, and the reason if it is the last."""

    text: str
    tokens: Sequence[TokenEntry]
    finish: str | None


class Choice:
    """One choice: the text and the tokens so far.

    Args:
        number: its number in the response.
        prompt: the prompt that it continues.
        echoes: whether the prompt is a part of it.
        writes: whether anything is written after the prompt.
        starts: where the text of each token of the prompt begins, for an echo with log P.
    """

    def __init__(
        self,
        number: int,
        prompt: Prompt,
        *,
        echoes: bool,
        writes: bool,
        starts: Sequence[int] = (),
    ) -> None:
        self.number, self.prompt = number, prompt
        self.n_written = 0
        self.finish: str | None = None
        self._echo = prompt.text if echoes else ""
        self._writes, self._starts = writes, starts
        self._pending_tokens: list[TokenEntry] = []

    def add(self, event: WrittenToken | Scored) -> Delta:
        """The piece that an event makes certain."""
        if isinstance(event, Scored):
            return self.echo(event.predictions)
        self.n_written += 1
        certain = event.n_certain + len(self._echo)
        start = certain if event.start is None else event.start + len(self._echo)
        ends = event.start is None
        token = TokenEntry(event.token_id, event.log_p, event.likeliest, start, ends)
        self._pending_tokens.append(token)
        if event.stopped == "stop":  # the tokens of the stop text are not in the answer
            self._pending_tokens = [
                token for token in self._pending_tokens if token.start < certain
            ]
        released = [
            token for token in self._pending_tokens if event.stopped or token.start < certain
        ]
        self._pending_tokens = self._pending_tokens[len(released) :]
        self.finish = None if event.stopped is None else _REASONS[event.stopped]
        return Delta(event.piece, released, self.finish)

    def echo(self, predictions: Sequence[Prediction] = ()) -> Delta:
        """The prompt as the first piece, with its log P if it was scored."""
        if not self._writes:
            self.finish = "length"
        tokens = [
            TokenEntry(token_id, log_p, likeliest, start)
            for token_id, start, (log_p, likeliest) in zip(
                self.prompt.ids,
                self._starts,
                [(None, ()), *map(_scored, predictions)],
                strict=False,
            )
        ]
        return Delta(self._echo, tokens, self.finish)


def _scored(prediction: Prediction) -> tuple[float | None, LogPs]:
    """The log P of the token that follows in the prompt, and the likeliest in its place."""
    pairs = [(token.token_id, token.probability) for token in prediction.likeliest]
    likeliest = [(i, math.log(share) if share > 0 else -math.inf) for i, share in pairs]
    return prediction.log_p, likeliest


class TokenSpeller:
    """Token entries as JSON, in the shapes of both endpoints."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._spelling = tokenizer, Spelling(tokenizer)

    def for_completion(self, tokens: Sequence[TokenEntry]) -> dict[str, Any]:
        """Parallel lists."""
        return {
            "tokens": [self._spelling.any_piece(token.token_id) for token in tokens],
            "token_logprobs": [_bounded(token.log_p) for token in tokens],
            "top_logprobs": [self._table(token) for token in tokens],
            "text_offset": [token.start for token in tokens],
        }

    def for_chat(self, tokens: Sequence[TokenEntry]) -> dict[str, Any]:
        """A list of objects; without the token that ends the answer."""
        content = [
            self._object(token.token_id, token.log_p)
            | {"top_logprobs": [self._object(*pair) for pair in token.likeliest]}
            for token in tokens
            if not token.ends
        ]
        return {"content": content, "refusal": None}

    def starts_of(self, ids: Sequence[int]) -> list[int]:
        """Where the text of each token of a prompt begins."""
        emit, length, starts = self._tokenizer.stream(), 0, list[int]()
        for token_id in ids:
            starts.append(length)
            length += len(emit(token_id))
        return starts

    def _table(self, token: TokenEntry) -> dict[str, float] | None:
        """The likeliest tokens by their text, and the token itself."""
        if token.log_p is None:
            return None
        table = {self._spelling.any_piece(token.token_id): token.log_p}
        for token_id, log_p in token.likeliest:
            table.setdefault(self._spelling.any_piece(token_id), log_p)
        return {piece: max(log_p, _LEAST_LOG_P) for piece, log_p in table.items()}

    def _object(self, token_id: int, log_p: float | None) -> dict[str, Any]:
        piece, tokenizer = self._spelling.any_piece(token_id), self._tokenizer
        raw = tokenizer.bytes_of(token_id) if token_id < tokenizer.vocab_size else None
        if raw is not None and "\N{REPLACEMENT CHARACTER}" not in tokenizer.token(token_id):
            raw = piece.encode()
        in_bytes = None if raw is None else list(raw)
        return {"token": piece, "logprob": _bounded(log_p), "bytes": in_bytes}


def _bounded(log_p: float | None) -> float | None:
    return None if log_p is None else max(log_p, _LEAST_LOG_P)
