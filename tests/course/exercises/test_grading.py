"""Right answers pass, wrong ones fail; typical mistakes are named with their operand."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from pellucid import maths
from pellucid.course.exercises.grading import grade, grade_all
from pellucid.course.exercises.leaves import numbers_by_place, plain, with_leaf
from pellucid.course.exercises.types import Exercise
from pellucid.errors import PellucidError

Q = [[1.0, 2.0, 0.5, -1.0], [0.3, -0.2, 1.1, 0.4]]
K = [[0.2, -1.0, 0.7, 0.1], [1.5, 0.3, -0.4, 0.8], [0.6, 0.6, 0.1, -0.9]]
ADAM = {"step": 2, "learning_rate": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8}
MOMENTS = {"w": [1.0], "grad": [0.5], "m": [0.2], "v": [0.3], "weight_decay": 0.1}


def exercise(equation: str, **operands: Any) -> Exercise:
    return Exercise(id="e", kind="number", question="", equation=equation, operands=operands)


def weights(scale: float) -> Any:
    return plain(maths.softmax(np.asarray(Q) @ np.asarray(K).T * scale))


SHARPER = exercise("softmax", x=[2.0, 1.0], temperature=2.0)
LOGITS = exercise("cross_entropy_grad", logits=[1.0, 3.0, 2.0], targets=1)


@pytest.mark.parametrize(
    ("asked", "answer", "words", "operand"),
    [
        (exercise("attention_weights", q=Q, k=K), weights(1), "did not divide", "q"),
        (exercise("attention_weights", q=Q, k=K), weights(1 / 4), "not by its root", "q"),
        (exercise("softmax", x=[2.0, 1.0, 0.5]), [4 / 7, 2 / 7, 1 / 7], "exponentiates", "x"),
        (SHARPER, None, "temperature = 1", "temperature"),
        (exercise("entropy", p=[0.5, 0.3, 0.2]), 1.48548, "base 2", "p"),
        (exercise("kl_divergence", p=[0.7, 0.3], q=[0.4, 0.6]), None, "exchanged p and q", "p"),
        (exercise("perplexity", loss_nats=3.0), 8.0, "2 as the base", "loss_nats"),
        (LOGITS, None, "p - y", "logits"),
        (exercise("adamw_step", **MOMENTS, **ADAM), None, "bias correction", "step"),
        (exercise("sgd_step", w=[1.0, 2.0], grad=[0.5, -1.0], learning_rate=0.1), [1.05, 1.9],
         "wrong sign", "grad"),
        (exercise("embedding", weight=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ids=[1, 2]),
         [[1.0, 2.0], [3.0, 4.0]], "off by one in ids", "ids"),
        (exercise("relu", x=[1.0, 2.0, 3.0]), [1.0, 2.5, 3.0], "x[1] = 2.5; it is 2", "x"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_typical_mistake_is_named_with_its_operand(
    asked: Exercise, answer: Any, words: str, operand: str
) -> None:
    if answer is None:
        answer = {
            "temperature": lambda: maths.softmax([2.0, 1.0]),
            "p": lambda: maths.kl_divergence([0.4, 0.6], [0.7, 0.3]),
            "logits": lambda: maths.softmax([1.0, 3.0, 2.0]),
            "step": lambda: maths.adamw_step(**MOMENTS, **{**ADAM, "step": 10**9}),
        }[operand]()
    verdict = grade(asked, plain(answer))
    assert not verdict.accepted
    assert words in verdict.explanation
    assert verdict.operand == operand


def test_a_norm_with_the_sample_variance_is_named() -> None:
    x = np.array([1.0, 2.0, 3.0, 6.0])
    question = exercise("layer_norm", x=x.tolist(), gain=[1.0] * 4, bias=[0.0] * 4, eps=1e-5)
    verdict = grade(question, ((x - x.mean()) / x.std(ddof=1)).tolist())
    assert "sample variance" in verdict.explanation
    assert "mean" in grade(question, plain(maths.rms_norm(x, np.ones(4), eps=1e-5))).explanation


def test_the_wrong_axis_and_a_position_too_far_are_named() -> None:
    scores = np.asarray(Q) @ np.asarray(K).T / 2
    over_queries = plain(maths.softmax(scores.T)).copy()
    verdict = grade(exercise("attention_weights", q=Q, k=K), np.asarray(over_queries).T.tolist())
    assert "wrong axis" in verdict.explanation
    x = np.array([[1.0, 10.0, 4.0], [3.0, 20.0, 7.0]])
    question = exercise("batch_norm", x=x.tolist(), gain=[1.0] * 3, bias=[0.0] * 3, eps=1e-5)
    over_features = maths.layer_norm(x, np.ones(3), np.zeros(3), eps=1e-5)
    assert "wrong axis of x" in grade(question, plain(over_features)).explanation
    question = exercise("sinusoid", positions=[0.0, 1.0], d_model=4, base=100.0)
    late = maths.sinusoid(np.array([1.0, 2.0]), d_model=4, base=100.0)
    assert "off by one in positions" in grade(question, plain(late)).explanation


def test_the_tolerance_accepts_four_digits_and_refuses_three() -> None:
    question = exercise("softmax", x=[0.3, 1.7, -0.4])
    right = question.right
    assert grade(question, [float(f"{p:.4g}") for p in right]).accepted
    assert not grade(question, [p * 1.005 for p in right]).accepted
    assert not grade(question, right[:2]).accepted
    assert not grade(question, [right]).accepted


def test_infinite_and_whole_numbers_have_to_be_equal() -> None:
    cut = exercise("keep_top_k", logits=[2.0, 1.0, -1.0], k=2)
    assert grade(cut, [2.0, 1.0, -math.inf]).accepted
    assert grade(cut, [2.0, 1.0, "-inf"]).accepted
    assert not grade(cut, [2.0, 1.0, -1e9]).accepted
    buckets = exercise("clipped_distance_index", distances=[-9, 0, 9], max_distance=2)
    assert grade(buckets, [0, 2, 4]).accepted
    assert not grade(buckets, [0, 2, 4.001]).accepted


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1.0


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("0.5", "expected nested lists of numbers, or Python code"),
        (None, "was None"),
        ({"a": 1}, "expected nested lists"),
        ([1.0, "two"], "was 'two'"),
        ([True, False], "was True"),
        ([math.nan, 1.0], "was nan"),
        ([], "was []"),
        ([[1.0], []], "was []"),
        (nested(100), "was [[["),
    ],
)
def test_an_answer_of_another_type_is_refused_in_words(answer: Any, words: str) -> None:
    with pytest.raises(PellucidError, match="exercise e: ") as refusal:
        grade(exercise("softmax", x=[1.0, 2.0]), answer)
    assert words in str(refusal.value)


def test_an_unknown_id_is_refused_with_the_known_ones() -> None:
    with pytest.raises(PellucidError, match="no exercise 'x' in this lesson; it has: e"):
        grade_all([exercise("relu", x=[1.0])], {"x": 1})


CODE = "def softmax(x, temperature=1.0):\n    e = np.exp({})\n    return e / e.sum({})\n"
MORE = [{"x": [[1.0, 2.0], [0.0, 5.0]], "temperature": 2.0}, {"x": [0.0, 1.0]}, {"x": [3.0, 1.0]}]


@pytest.mark.parametrize(
    ("code", "accepted", "words"),
    [
        (CODE.format("x / temperature", "-1, keepdims=True"), True, "on 4 inputs"),
        (CODE.format("x", "-1, keepdims=True"), False, "temperature = 1"),
        (CODE.format("x / temperature", ""), False, "for x = [[1, 2], [0, 5]]"),
        ("def softmax(x, temperature=1.0):\n    return x[9]", False, "stopped in line 2"),
        ("def softmax(x, temperature=1.0):\n    import pellucid", False, "ModuleNotFoundError"),
        ("def softmax(x, temperature=1.0): return 'a'", False, "it gave str"),
        ("def softmax(:", False, "SyntaxError"),
    ],
)
def test_code_is_run_on_several_inputs(code: str, accepted: bool, words: str) -> None:
    question = Exercise(
        id="e",
        kind="code",
        question="",
        equation="softmax",
        operands={"x": [1.0, 2.0]},
        more_operands=lambda place: MORE[place - 1],
    )
    verdict = grade(question, code)
    assert verdict.accepted == accepted
    assert words in verdict.explanation


def test_code_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.course.exercises.code.SECONDS", 1.0)
    verdict = grade(exercise("relu", x=[1.0]), "def relu(x):\n    while True: pass")
    assert "did not end" in verdict.explanation


def test_one_number_changed_is_a_near_miss_and_is_refused() -> None:
    question = exercise("attention_weights", q=Q, k=K)
    right = json.loads(json.dumps(question.right))
    for place, number in numbers_by_place(right).items():
        assert not grade(question, with_leaf(right, place, number * 1.01)).accepted
