"""Answers behind prompts that nothing pays for: whether they are closed, and not copied ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.typed import to_list
from pellucid.vitals.call.arguments import Arguments

#: Fewer rows say nothing. Shorter answers may be quoted, or be names of classes.
_FEWEST_ROWS, _SHORTEST = 4, 8
#: A prompt with no more tokens around the answer asks for a copy.
_AROUND = 4
#: So many rows are read, and of a long answer so many tokens.
_ROWS, _LONGEST = 32, 64
#: A template closes an answer by one of its last two tokens.
_LAST = 2

Row = tuple[list[int], list[int], bool]


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
    core = list(answer[1:-1][:_LONGEST])
    if len(prompt) < len(answer) + _AROUND or len(set(core)) < _SHORTEST // 2:
        return False
    starts = range(len(prompt) - len(core) + 1)
    return any(prompt[at] == core[0] and list(prompt[at : at + len(core)]) == core for at in starts)


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
