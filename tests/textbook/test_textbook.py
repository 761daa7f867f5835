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
    listed_names = [name for names in topics().values() for name in names]
    assert sorted(listed_names) == sorted(NAMES)
    for name in maths.__all__:
        if name.endswith(GRADIENTS):
            assert any(
                f"`{name}`" in entry(listed_name).gradient for listed_name in listed_names
            ), name


@pytest.mark.parametrize("name", NAMES)
def test_every_equation_has_formula_source_and_an_example_that_computes(name: str) -> None:
    equation_entry = entry(name)
    assert equation_entry.summary.endswith(".")
    assert equation_entry.formula
    assert re.search(r"\b(1[89]|20)\d\d\b", equation_entry.source), equation_entry.source
    examples = equation_entry.examples()
    assert examples
    for example in examples:
        assert example.shown_text
        assert name in maths.__all__
    assert any(re.search(rf"\b{name}\(", example.expression) for example in examples)


@pytest.mark.parametrize("name", NAMES)
def test_every_section_of_a_docstring_is_in_its_entry(name: str) -> None:
    docstring = inspect.getdoc(getattr(maths, name)) or ""
    equation_entry = entry(name)
    text = " ".join(
        (
            equation_entry.summary,
            equation_entry.formula,
            equation_entry.notes,
            equation_entry.shapes,
            equation_entry.units,
            equation_entry.gradient,
            equation_entry.fails,
            equation_entry.raises,
            equation_entry.source,
            equation_entry.see_also,
            *equation_entry.expressions,
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
        for reference in re.findall(r"`(\w+)`", section[1] if section else ""):
            assert reference in maths.__all__, (name, reference)


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
    result = look_up(words)
    assert isinstance(result, Entry)
    assert result.name == name


@pytest.mark.parametrize("words", ["batch layer normalisation", "Batch Layer Normalization"])
def test_batch_layer_normalisation_is_said_not_to_be_a_thing(words: str) -> None:
    result = look_up(words)
    assert isinstance(result, Misnomer)
    assert "no such thing" in result.explanation
    assert result.suggestions == ("layer_norm", "batch_norm")


def test_a_topic_gives_its_equations() -> None:
    assert look_up("preference and policy") == topics()["preference and policy"]


def test_a_slip_is_answered_with_what_is_called_like_it() -> None:
    with pytest.raises(PellucidError, match=r"no equation called 'sofmax'.*softmax"):
        look_up("sofmax")


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text)
def test_every_answer_of_the_quiz_is_proved(question: Question) -> None:
    *steps, conclusion = question.proof()
    assert steps
    assert question.text.endswith("?") or question.text.endswith("Why?")
    assert conclusion.value is True or (
        isinstance(conclusion.value, np.bool_) and bool(conclusion.value)
    )
    names = {name for step in question.proof() for name in re.findall(r"\w+", step.expression)}
    assert names & set(maths.__all__) or "prod" in names


def test_there_are_twenty_questions_and_no_two_alike() -> None:
    assert len({question.text for question in QUESTIONS}) == len(QUESTIONS) >= 20


def test_what_is_not_finite_is_a_word_in_json() -> None:
    assert compute("array([inf, 1.0])").plain == ["inf", 1.0]
    assert compute("perplexity(1e6)").plain == "inf"
