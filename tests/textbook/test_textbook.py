"""The textbook says what the equations say, and everything it shows is computed."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

from pellucid import maths
from pellucid.errors import PellucidError
from pellucid.textbook import QUESTIONS, Entry, Misnomer, Question, compute, entry, look_up, topics

GRADIENTS = ("_grad", "_grads")
NAMES = [name for name in maths.__all__ if not name.endswith(GRADIENTS)]


def test_every_equation_is_in_one_chapter_and_gradients_are_with_what_they_are_of() -> None:
    listed = [name for names in topics().values() for name in names]
    assert sorted(listed) == sorted(NAMES)
    for name in maths.__all__:
        if name.endswith(GRADIENTS):
            assert any(f"`{name}`" in entry(each).gradient for each in listed), name


@pytest.mark.parametrize("name", NAMES)
def test_every_equation_has_formula_source_and_an_example_that_computes(name: str) -> None:
    found = entry(name)
    assert found.summary.endswith(".")
    assert found.formula
    assert re.search(r"\b(1[89]|20)\d\d\b", found.source), found.source
    examples = found.examples()
    assert examples
    for each in examples:
        assert each.shown_text
        assert name in maths.__all__
    assert any(re.search(rf"\b{name}\(", each.expression) for each in examples)


@pytest.mark.parametrize("name", NAMES)
def test_every_section_of_a_docstring_is_in_its_entry(name: str) -> None:
    docstring = inspect.getdoc(getattr(maths, name)) or ""
    found = entry(name)
    text = " ".join(
        (
            found.summary,
            found.formula,
            found.notes,
            found.shapes,
            found.units,
            found.gradient,
            found.fails,
            found.raises,
            found.source,
            found.see_also,
            *found.expressions,
        )
    )
    heads = {"Args", "Units", "Gradient", "Fails", "Raises", "Source", "See", "also", "Example"}
    assert set(re.findall(r"\w+", docstring)) - heads <= set(re.findall(r"\w+", text))


def test_names_that_docstrings_refer_to_are_equations() -> None:
    for name in maths.__all__:
        section = re.search(
            r"^(?:See also|Gradient):\n((?:    .*\n?)+)",
            inspect.getdoc(getattr(maths, name)) or "",
            re.M,
        )
        for told in re.findall(r"`(\w+)`", section[1] if section else ""):
            assert told in maths.__all__, (name, told)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("softmax", "softmax"),
        ("Layer Normalization", "layer_norm"),
        ("LayerNorm", "layer_norm"),
        ("RoPE", "rotate"),
        ("soft-threshold", "l1_prox"),
        ("Kullback-Leibler", "kl_divergence"),
        ("weight decay", "adamw_step"),
    ],
)
def test_other_names_and_spellings_lead_to_the_equation(words: str, name: str) -> None:
    found = look_up(words)
    assert isinstance(found, Entry)
    assert found.name == name


@pytest.mark.parametrize("words", ["batch layer normalisation", "Batch Layer Normalization"])
def test_batch_layer_normalisation_is_said_not_to_be_a_thing(words: str) -> None:
    found = look_up(words)
    assert isinstance(found, Misnomer)
    assert "no such thing" in found.explanation
    assert found.suggestions == ("layer_norm", "batch_norm")


def test_a_topic_gives_its_equations() -> None:
    assert look_up("preference and policy") == topics()["preference and policy"]


def test_a_slip_is_answered_with_what_is_called_like_it() -> None:
    with pytest.raises(PellucidError, match=r"no equation called 'sofmax'.*softmax"):
        look_up("sofmax")


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text)
def test_every_answer_of_the_quiz_is_proved(question: Question) -> None:
    *seen, holds = question.proof()
    assert seen
    assert question.text.endswith("?") or question.text.endswith("Why?")
    assert holds.value is True or (isinstance(holds.value, np.bool_) and bool(holds.value))
    names = {name for each in question.proof() for name in re.findall(r"\w+", each.expression)}
    assert names & set(maths.__all__) or "prod" in names


def test_there_are_twenty_questions_and_no_two_alike() -> None:
    assert len({question.text for question in QUESTIONS}) == len(QUESTIONS) >= 20


def test_what_is_not_finite_is_a_word_in_json() -> None:
    assert compute("array([inf, 1.0])").plain == ["inf", 1.0]
    assert compute("perplexity(1e6)").plain == "inf"
