"""Answers behind prompts: whether they are closed, and whether their prompts hold them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from pellucid.batches import IGNORED
from pellucid.vitals.call.answer_texts import Writing, measure
from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.taps.recorded_call import Call

_PAD, _END, _CLOSE, _ROWS = 0, 1, 2, 6


def _texts() -> list[list[int]]:
    draws = torch.Generator().manual_seed(0)
    return [torch.randint(10, 90, (12 + row,), generator=draws).tolist() for row in range(_ROWS)]


def _signs(prompt_of: Callable[[list[int]], list[int]], close: list[int]) -> dict[str, float]:
    """The signs of rows of a prompt, an answer, and what closes it, with room behind."""
    rows = [(prompt_of(answer), answer + close) for answer in _texts()]
    tokens = torch.full((_ROWS, 80), _PAD)
    targets = torch.full((_ROWS, 80), IGNORED)
    for at, (prompt, answer) in enumerate(rows):
        tokens[at, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        targets[at, len(prompt) - 1 : len(prompt) + len(answer) - 1] = torch.tensor(answer)
    arguments = Arguments(Call((), {"input_ids": tokens}), "input_ids", ends=(_END,), pad=_PAD)
    return measure(arguments, tokens, targets)


def _question(answer: list[int]) -> list[int]:
    return [90 + len(answer) % 7] * 9


def test_answers_without_an_end_are_open() -> None:
    assert _signs(_question, [])["targets.open_answers"] == 1
    for close in ([_END], [_CLOSE], [_CLOSE, 95]):
        assert _signs(_question, close)["targets.open_answers"] == 0


def test_an_answer_in_its_prompt_is_copied() -> None:
    assert _signs(lambda answer: [*_question(answer), *answer, 91], [_END])["targets.copied"] == 1
    assert _signs(lambda answer: [*answer, 91], [_END])["targets.copied"] == 0, "a task of copying"
    assert _signs(_question, [_END])["targets.copied"] == 0


def test_rows_without_prompts_say_nothing() -> None:
    assert _signs(lambda _: [3], [_END]).get("targets.copied", 0.0) == 0


PROMPTS = torch.tensor([[0, 11], [0, 12]])
TEXTS = torch.tensor([[0, 11, 21, 31, 41, 2], [0, 12, 22, 32, 42, 52]])


@pytest.mark.parametrize("is_cached", [True, False])
def test_rows_are_a_models_own_if_they_go_on_as_it_wrote(is_cached: bool) -> None:
    writing = Writing()
    writing.note(PROMPTS)
    for place in range(2, 6):
        writing.note(TEXTS[:, place : place + 1] if is_cached else TEXTS[:, : place + 1])
    assert writing.start.tolist() == [[0, 11, 21], [0, 12, 22]]
    assert writing.is_in(TEXTS)
    assert writing.is_in(TEXTS[:, :3])
    padded = torch.where(torch.arange(6) > 4, 0, TEXTS)
    assert writing.is_in(padded)  # with other padding behind an end
    assert not writing.is_in(TEXTS[:1])
    other = torch.cat([PROMPTS, torch.full((2, 4), 77)], 1)
    assert not writing.is_in(other)  # begins alike, and goes on in another way


def test_of_one_call_alone_the_start_is_all_that_is_known() -> None:
    writing = Writing()
    writing.note(PROMPTS)
    assert writing.is_in(TEXTS)
    assert not writing.is_in(TEXTS.flip(0))
    assert not writing.is_in(PROMPTS)
