"""Answers behind prompts that stop without an end token, over many batches."""

from __future__ import annotations

import random

import pytest
import torch

from pellucid.batches import IGNORED
from pellucid.vitals.call.prompt_answers import PromptAnswers

END, PAD, STOP = 2, 0, 9


def collected(*, closed_by: tuple[int, ...], n: int = 20, after: int = PAD) -> PromptAnswers:
    """Rows of a prompt and an answer with full stops, some of them inside, and room after it."""
    draws, answers = random.Random(0), PromptAnswers()
    for _ in range(n):
        ids = torch.full((8, 40), after)
        labels = torch.full((8, 40), IGNORED)
        for row in range(8):
            sentences = [draws.choices(range(10, 90), k=5) for _ in range(draws.randint(2, 3))]
            answer = [token for words in sentences for token in (*words, STOP)] + [*closed_by]
            text = draws.choices(range(10, 90), k=8) + answer
            ids[row, : len(text)] = torch.tensor(text)
            labels[row, 8 : len(text)] = ids[row, 8 : len(text)]
        answers.add(ids, labels)
    return answers


@pytest.mark.parametrize(("closed_by", "share"), [((), 1.0), ((END,), 0.0), ((95, 96), 0.0)])
def test_full_stops_close_no_answer_and_tokens_of_a_template_do(
    closed_by: tuple[int, ...], share: float
) -> None:
    assert collected(closed_by=closed_by).share_without_end((END,)) == share


def test_nothing_is_known_of_few_answers_of_other_room_and_without_an_end() -> None:
    assert collected(closed_by=(), n=4).share_without_end((END,)) is None
    assert collected(closed_by=(), after=END).share_without_end((END,)) is None
    assert collected(closed_by=()).share_without_end(()) is None
