"""Answers that repeat their own prompts, those of other rows, or none."""

from __future__ import annotations

import random

import pytest
import torch

from pellucid.batches import IGNORED
from pellucid.vitals.call.prompt_answers import PromptAnswers, match

Row = tuple[tuple[int, ...], tuple[int, ...]]


def rows(n: int, *, shift: int, answers: str = "repeat") -> list[Row]:
    """Prompts of 12 random ids, with answers that repeat 3 + 3 of the prompt `shift` rows on."""
    draws = random.Random(0)
    prompts = [tuple(draws.choices(range(1000), k=12)) for _ in range(n)]
    foreign = [tuple(draws.choices(range(1000), k=6)) for _ in range(n)]
    sources = [prompts[(i + shift) % n] for i in range(n)]
    own = [
        prompt[2:5] + draw[:1] + prompt[7:10] for prompt, draw in zip(sources, foreign, strict=True)
    ]
    return list(zip(prompts, own if answers == "repeat" else foreign, strict=True))


def test_answers_of_their_own_prompts_match_them() -> None:
    matches = match(rows(80, shift=0))
    assert matches is not None
    assert matches.own_match > 10
    assert matches.n_others == 0


@pytest.mark.parametrize("shift", [1, 40])
def test_answers_of_other_prompts_match_those(shift: int) -> None:
    matches = match(rows(80, shift=shift))
    assert matches is not None
    assert matches.own_match < 3
    assert matches.n_others > 70


def test_answers_in_words_of_their_own_match_none() -> None:
    matches = match(rows(80, shift=0, answers="foreign"))
    assert matches is not None
    assert matches.n_others == 0


def test_a_dialogue_whose_next_prompt_holds_the_answer_matches_its_own() -> None:
    turns = [row[0] for row in rows(120, shift=0)]
    dialogue = [(turns[i] + turns[i + 1], turns[i + 1][:2] + turns[i + 2]) for i in range(118)]
    matches = match(dialogue)
    assert matches is not None
    assert matches.own_match > 5


def test_one_word_of_many_pieces_is_no_match() -> None:
    """A tokenizer of few tokens cuts a name into pieces: prompts and answers may share it."""
    draws = random.Random(1)
    names = [tuple(draws.choices(range(1000), k=4)) for _ in range(40)]
    text = [tuple(draws.choices(range(30), k=6)) for _ in range(160)]
    windows = [(text[i] + names[i % 40], names[(7 * i + 3) % 40] + text[i - 1]) for i in range(160)]
    matches = match(windows)
    assert matches is not None
    assert matches.n_others < 5


def test_few_rows_and_equal_prompts_say_nothing() -> None:
    assert match(rows(20, shift=1)) is None
    assert match([((1, 2, 3), answer) for _, answer in rows(80, shift=1)]) is None


def test_rows_are_split_where_labels_begin() -> None:
    answers = PromptAnswers()
    for prompt, answer in rows(96, shift=1):
        ids = torch.tensor([prompt + answer])
        answers.add(ids, torch.where(torch.arange(19) < 12, -100, ids))
    assert answers.is_full
    matches = answers.measure()
    assert matches is not None
    assert matches.n_answers == 64


def test_labels_that_are_other_ids_or_classes_are_left_out() -> None:
    answers = PromptAnswers()
    for prompt, answer in rows(60, shift=1):
        ids = torch.tensor([prompt + answer])
        answers.add(ids, ids + 1)
        answers.add(ids, torch.tensor([1]))
        answers.add(None, ids)
    assert answers.measure() is None


def labelled(*, shown: bool, kinds: int = 3, ended_by: int = 2) -> PromptAnswers:
    """Prompts that list all classes, with or without the row's own once more, and the class."""
    draws, answers = random.Random(2), PromptAnswers()
    for _ in range(20):
        ids, labels = torch.zeros((8, 24), dtype=torch.long), torch.full((8, 24), IGNORED)
        for row in range(8):
            words = [(90 + kind, 80) for kind in range(kinds)]
            own = draws.choice(words)
            text = draws.choices(range(10, 60), k=6) + [token for word in words for token in word]
            text = [*text[:3], *own, *text[3:]] if shown else text
            whole = [*text, *own, ended_by]
            ids[row, : len(whole)] = torch.tensor(whole)
            labels[row, len(text) : len(whole)] = ids[row, len(text) : len(whole)]
        answers.add(ids, labels)
    return answers


def test_a_prompt_that_holds_its_own_class_tells_it() -> None:
    assert labelled(shown=True).share_told({2}) == 1
    assert labelled(shown=False).share_told({2}) == 0
    assert labelled(shown=True, kinds=1).share_told({2}) is None
    assert PromptAnswers().share_told({2}) is None


def test_the_token_that_ends_answers_is_known() -> None:
    assert labelled(shown=False, ended_by=1).share_ended_by((1,)) == 1
    assert labelled(shown=False).share_ended_by((1,)) == 0
    assert PromptAnswers().share_ended_by((1,)) is None
