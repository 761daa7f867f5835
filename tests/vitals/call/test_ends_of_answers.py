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


def rows_of(
    answer_length: int, *, width: int = 30, n: int = 16, closed: bool = False
) -> PromptAnswers:
    """Rows of prompts of several lengths, cut off at one width."""
    draws, answers = random.Random(1), PromptAnswers()
    for _ in range(n):
        ids, labels = torch.full((8, width), PAD), torch.full((8, width), IGNORED)
        for row in range(8):
            prompt = draws.choices(range(10, 90), k=draws.randint(4, 9))
            answer = draws.choices(range(10, 90), k=answer_length) + [END] * closed
            text = (prompt + answer)[:width]
            ids[row, : len(text)] = torch.tensor(text)
            labels[row, len(prompt) : len(text)] = ids[row, len(prompt) : len(text)]
        answers.add(ids, labels)
    return answers


def test_answers_that_run_into_the_end_of_all_rows_are_cut_off() -> None:
    assert rows_of(30).share_cut_off((END,)) == 1
    assert rows_of(15).share_cut_off((END,)) == 0
    assert rows_of(30).share_cut_off(()) is None
    assert rows_of(30, n=4).share_cut_off((END,)) is None
    ends = rows_of(24, closed=True).share_cut_off((END,))
    assert ends is not None
    assert 0.5 < ends < 0.9


def test_rows_of_several_lengths_or_one_prompt_length_are_not_cut_off() -> None:
    several = rows_of(30)
    ids = torch.full((8, 31), 20)
    several.add(ids, torch.where(torch.arange(31) < 4, IGNORED, ids))
    assert several.share_cut_off((END,)) is None
    one = PromptAnswers()
    for _ in range(16):
        one.add(ids, torch.where(torch.arange(31) < 4, IGNORED, ids))
    assert one.share_cut_off((END,)) == 0


def packed(*, cue: int | None, closed: bool) -> PromptAnswers:
    """Rows of three prompts and answers each, with a token of a template before each answer."""
    draws, answers = random.Random(2), PromptAnswers()
    for _ in range(16):
        ids, labels = list[int](), list[int]()
        for _ in range(3):
            prompt = draws.choices(range(10, 90), k=5)
            prompt = prompt if cue is None else [*prompt, cue]
            answer = draws.choices(range(10, 90), k=9) + [END] * closed
            ids += prompt + answer
            labels += [IGNORED] * len(prompt) + answer
        answers.add(torch.tensor([ids] * 2), torch.tensor([labels] * 2))
    return answers


@pytest.mark.parametrize(
    ("cue", "closed", "share"), [(95, False, 1.0), (95, True, 0.0), (None, False, None)]
)
def test_packed_answers_are_read_one_by_one(
    cue: int | None, closed: bool, share: float | None
) -> None:
    assert packed(cue=cue, closed=closed).share_without_end((END,)) == share


def test_answers_that_stand_in_their_prompts_are_counted() -> None:
    draws, answers = random.Random(3), PromptAnswers()
    for at in range(16):
        rows = [draws.choices(range(10, 900), k=10) for _ in range(8)]
        foreign_rows = [draws.choices(range(10, 900), k=10) for _ in range(8)]
        prompts = [
            [7, 7, *(a if at < 12 else b), 8, 8, 8] for a, b in zip(rows, foreign_rows, strict=True)
        ]
        ids = torch.tensor([p + a for p, a in zip(prompts, rows, strict=True)])
        answers.add(ids, torch.where(torch.arange(ids.shape[1]) < 15, IGNORED, ids))
    assert answers.share_copied() == 0.75
    assert rows_of(15).share_copied() == 0
    assert rows_of(15, n=4).share_copied() is None


def test_answers_behind_the_prompts_that_a_model_wrote_from_are_its_own() -> None:
    prompts, answers = torch.arange(40).view(8, 5), PromptAnswers()
    ids = torch.cat([prompts, torch.full((8, 6), 90)], 1)
    labels = torch.where(torch.arange(11) < 5, IGNORED, ids)
    for _ in range(2):
        answers.add(ids, labels)
    assert not answers.are_own
    answers.on_writing(prompts[:4])
    answers.on_writing(ids[:, -1:])  # the last token, behind a cache
    assert not answers.are_own  # half of them
    answers.on_writing(prompts)
    assert answers.are_own
