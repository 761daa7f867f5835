"""Texts of answers: what a model writes, whether answers are closed, and not copied ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.typed import to_list
from pellucid.vitals.call.answer_rows import MaskedIds, RowReadings, texts_of
from pellucid.vitals.call.arguments import Arguments

#: Fewer rows say nothing. Shorter answers may be quoted, or be names of classes.
_FEWEST_ROWS, _SHORTEST = 4, 8
#: A prompt with no more tokens around the answer asks for a copy.
_AROUND = 4
#: So many rows are read, and of a long answer so many tokens.
_ROWS, _LONGEST = 32, 64
#: A template closes an answer by one of its last two tokens.
_LAST = 2
#: Fewer texts are of one length by chance. Cut-off ones have several last tokens and prompts.
_FEWEST_TEXTS, _TOKENS, _LENGTHS = 12, 3, 4

#: So many tokens tell whether a row is what a model wrote, and so many of them have to agree: the
#: padding behind an early end may be another.
_N_TOKENS, _SHARE = 4, 0.75

Row = tuple[list[int], list[int], bool]


class Writing:
    """What a model reads in calls without gradients: prompts, and the first tokens behind them."""

    def __init__(self) -> None:
        #: the ids (rows, time) of the first call
        self.prompt: Tensor | None = None
        self._next_tokens: list[Tensor] = []

    def note(self, ids: Int[Tensor, "rows time"]) -> None:
        """Take a further call: of one more token behind a cache, or of all tokens so far.

        Args:
            ids: The ids of the call.
        """
        if self.prompt is None:
            self.prompt = ids.clone()
            return
        n, width = self.prompt.shape
        if len(ids) != n or len(self._next_tokens) >= _N_TOKENS:
            return
        if ids.shape[1] == 1:
            self._next_tokens.append(ids.clone())
        elif ids.shape[1] > width and torch.equal(ids[:, :width], self.prompt):
            last = min(ids.shape[1], width + _N_TOKENS)
            self._next_tokens = [ids[:, place, None].clone() for place in range(width, last)]

    @property
    def start(self) -> Int[Tensor, "rows start"]:
        """The prompts, with the first token behind them if it was read."""
        assert self.prompt is not None
        return torch.cat([self.prompt, *self._next_tokens[:1]], 1)

    def is_in(self, ids: Int[Tensor, "rows time"]) -> bool:
        """Whether the first rows are these prompts, with what was written behind them.

        A start that all texts share, such as one token, is in many rows that no model wrote.

        Args:
            ids: Rows that a model learns from.
        """
        assert self.prompt is not None
        n, width = self.prompt.shape
        is_longer = ids.shape[1] > width and len(ids) >= n
        if not is_longer or not torch.equal(ids[:n, :width], self.prompt):
            return False
        tokens = self._next_tokens[: ids.shape[1] - width]
        if not tokens:
            return True
        is_same = ids[:n, width : width + len(tokens)] == torch.cat(tokens, 1)
        return bool(is_same.double().mean() >= _SHARE)


def measure(
    arguments: Arguments, tokens: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]
) -> dict[str, float]:
    """The signs of rows of one prompt, which nothing pays for, and one answer behind it.

    Args:
        arguments: The call.
        tokens: The ids that the outputs follow.
        targets: The next token of each place, `IGNORED` where nothing is paid for.
    """
    rows = _split(tokens[:_ROWS], targets[:_ROWS], {*arguments.ends})
    if len(rows) < max(_FEWEST_ROWS, (min(len(tokens), _ROWS) + 1) // 2):
        return {}
    copied = [is_copied(prompt, answer) for prompt, answer, _ in rows]
    signs = {"targets.copied": sum(copied) / len(rows)}
    whole_answers = [answer for _, answer, is_whole in rows if is_whole]
    if arguments.ends and len(whole_answers) >= _FEWEST_ROWS:
        is_open = _are_open(whole_answers, {*arguments.ends, *arguments.special})
        signs["targets.open_answers"] = is_open * len(whole_answers) / len(rows)
    return signs


def _split(tokens: Tensor, targets: Tensor, ends: set[int]) -> list[Row]:
    """The prompt and the long answer of each row, and whether no end but other room follows it."""
    places = torch.arange(tokens.shape[1], device=tokens.device)
    is_paid = targets != IGNORED
    first = torch.where(is_paid, places, len(places)).amin(1)
    last = torch.where(is_paid, places, -1).amax(1)
    is_one_run = is_paid.sum(1) == last - first + 1
    rows: list[Row] = []
    for row, start, end, is_run in zip(
        to_list(tokens), to_list(first), to_list(last), to_list(is_one_run), strict=True
    ):
        answer = row[start + 1 : end + 2]
        if is_run and start > 0 and len(answer) >= _SHORTEST:
            is_whole = end + 2 < len(row) and row[end + 2] not in ends
            rows.append((row[: start + 1], answer, is_whole))
    return rows


def is_copied(prompt: Sequence[int], answer: Sequence[int]) -> bool:
    """Whether an answer stands in its prompt, but for the tokens at its two ends."""
    core = answer[1:-1][:_LONGEST]
    if len(prompt) < len(answer) + _AROUND or len(set(core)) < _SHORTEST // 2:
        return False
    return times_in(core, prompt) > 0


def times_in(word: Sequence[int], text: Sequence[int]) -> int:
    """How often a text holds a word.

    Args:
        word: The ids of one token or more.
        text: Ids.
    """
    starts = (start for start, token in enumerate(text) if token == word[0])
    return sum(tuple(text[start : start + len(word)]) == tuple(word) for start in starts)


def _are_open(answers: Sequence[Sequence[int]], ends: set[int]) -> bool:
    """Whether answers have no token in common that closes them.

    It ends half of them or more, and stands nowhere else in them. Full stops that stand nowhere
    else are taken for one: better no word than a wrong one.
    """
    inside = {token for answer in answers for token in answer[:-_LAST]}
    last = Counter(token for answer in answers for token in {*answer[-_LAST:]})
    return not any(
        token in ends or (2 * n >= len(answers) and token not in inside)
        for token, n in last.items()
    )


def cut_off(calls: Sequence[MaskedIds], readings: Mapping[int, RowReadings]) -> dict[str, float]:
    """The sign `answers.cut_off` of pairs whose paid tokens are known.

    Args:
        calls: The rows of each call.
        readings: What the gradient showed of some rows of some calls.
    """
    texts, n_paid = list[Tensor](), list[float]()
    for call, reading in sorted(readings.items()):
        if 0 <= call < len(calls) and reading.n_tokens is not None:
            call_texts, rows = texts_of(*calls[call]), to_list(reading.rows)
            texts += [call_texts[row] for row in rows]
            n_paid += to_list(reading.n_tokens)
    share = share_cut_off(texts, n_paid)
    return {} if share is None else {"answers.cut_off": share}


def share_cut_off(texts: Sequence[Tensor], n_paid: Sequence[float]) -> float | None:
    """The share of texts of one largest length that stop without the token that ends all others.

    Their prompts have several lengths, so it is no form of theirs. None where no shorter text shows
    how texts end, or where it ends otherwise than another one.

    Args:
        texts: The ids of each; equal ids at an end, such as padding, count as one.
        n_paid: How many tokens of each are paid for; not above 0 if unknown.
    """
    rows = [_without_tail(to_list(text)) for text in texts]
    most = max(map(len, rows), default=0)
    ends = {row[-1] for row in rows if 0 < len(row) < most}
    if len(rows) < _FEWEST_TEXTS or len(ends) != 1 or len(rows) != len(n_paid):
        return None
    cut = [(row[-1], n) for row, n in zip(rows, n_paid, strict=True) if len(row) == most]
    cut = [(last, n) for last, n in cut if last not in ends]
    lengths = {n for _, n in cut if n > 0}
    if len({last for last, _ in cut}) < _TOKENS or len(lengths) < _LENGTHS:
        return 0.0
    return len(cut) / len(rows)


def _without_tail(row: list[int]) -> list[int]:
    """The row with one of the equal tokens at its end."""
    end = len(row)
    while end > 1 and row[end - 2] == row[end - 1]:
        end -= 1
    return row[:end]
