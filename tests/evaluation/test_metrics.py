"""Measures of held-out answers: by hand, by scikit-learn, and by what sacrebleu's tests say."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from pellucid.display import metric_labels
from pellucid.errors import LibraryError, RunError
from pellucid.evaluation.metrics import classification_measures, exact_match, text_measures

SPAM = ("ham", "spam")
PROBABILITIES = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6], [0.75, 0.25]])
LABELS = np.array([0, 0, 0, 1, 1])


def test_two_classes_are_measured_as_worked_out_by_hand() -> None:
    measured = classification_measures(PROBABILITIES, LABELS, SPAM)
    assert measured.confusion is not None
    np.testing.assert_array_equal(measured.confusion, [[2, 1], [1, 1]])
    assert measured.measures["accuracy"] == pytest.approx(3 / 5)
    assert measured.measures["precision"] == pytest.approx(1 / 2)
    assert measured.measures["recall"] == pytest.approx(1 / 2)
    assert measured.measures["f1"] == pytest.approx(1 / 2)
    assert measured.measures["macro_f1"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    squares = 2 * np.array([0.1, 0.2, 0.7, 0.4, 0.75]) ** 2
    assert measured.measures["brier"] == pytest.approx(squares.mean())
    # of the fifteen bins .75 (wrong) and .8 (right) share one; each other answer has its own
    assert measured.measures["ece"] == pytest.approx((0.1 + 0.7 + 0.4 + 2 * (0.775 - 0.5)) / 5)
    assert [(class_measures.name, class_measures.texts) for class_measures in measured.classes] == [
        ("ham", 3),
        ("spam", 2),
    ]


def test_a_class_that_never_comes_is_measured_and_not_left_out() -> None:
    measured = classification_measures(np.eye(3)[[0, 1]], np.array([0, 1]), ("a", "b", "c"))
    assert measured.measures["accuracy"] == 1
    assert measured.measures["macro_f1"] == pytest.approx(2 / 3)
    assert "f1" not in measured.measures
    assert measured.classes[2].texts == 0


def test_labels_of_which_several_may_hold_are_a_yes_or_no_each() -> None:
    labels = np.array([[1, 0], [1, 1], [0, 0]])
    probabilities = np.array([[0.9, 0.2], [0.8, 0.4], [0.6, 0.1]])
    measured = classification_measures(probabilities, labels, ("a", "b"))
    assert measured.confusion is None
    assert measured.measures["accuracy"] == pytest.approx(4 / 6)
    assert measured.measures["exact_match"] == pytest.approx(1 / 3)
    assert measured.measures["macro_f1"] == pytest.approx((4 / 5 + 0) / 2)
    assert measured.measures["micro_f1"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert "f1" not in measured.measures


def test_every_measure_has_a_name_for_a_person() -> None:
    single_label = classification_measures(PROBABILITIES, LABELS, SPAM).measures
    several_labels = classification_measures(PROBABILITIES, np.eye(2)[LABELS], SPAM).measures
    assert {
        *single_label,
        *several_labels,
        "bleu",
        "chrf",
        "exact_match",
    } <= metric_labels.LABELS.keys()


@pytest.mark.parametrize(
    ("probabilities", "labels", "said"),
    [
        (PROBABILITIES[:, :1], LABELS, "a column for each of the 2 classes"),
        (PROBABILITIES[:0], LABELS[:0], "at least one"),
        (PROBABILITIES, LABELS[:3], "give one for each of the 5 texts"),
        (PROBABILITIES, LABELS + 1, "text 3 has label 2, and the classes are 0 to 1"),
        (PROBABILITIES, LABELS - 1, "text 0 has label -1"),
        (PROBABILITIES, PROBABILITIES, "something else than 0 and 1"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_reason(
    probabilities: np.ndarray, labels: np.ndarray, said: str
) -> None:
    with pytest.raises(RunError, match=said):
        classification_measures(probabilities, labels, SPAM)


def test_exact_match_forgives_white_space_at_the_ends_alone() -> None:
    assert exact_match([" a b\n", "a  b", "c"], ["a b", "a b", ("d", "c")]) == pytest.approx(2 / 3)
    with pytest.raises(RunError, match="2 texts cannot be compared with 1"):
        exact_match(["a", "b"], ["a"])


def test_without_sacrebleu_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(LibraryError, match=r'pip install -U "\.\[bleu\]"'):
        text_measures(["a"], ["a"])


@pytest.fixture
def sacrebleu() -> None:
    pytest.importorskip(
        "sacrebleu", reason="the package sacrebleu is not installed: pip install -e '.[bleu]'"
    )


def test_bleu_is_that_of_the_reference_values(sacrebleu: None, shared_data: Path) -> None:
    file = shared_data / "reference-vectors" / "bleu_sacrebleu.json"
    if not file.is_file():
        pytest.skip(f"the reference values are not at {file}")
    reference_values = json.loads(file.read_text("utf-8"))
    measures = text_measures(
        reference_values["hyps"], list(zip(*reference_values["refs"], strict=True))
    )
    assert measures["bleu"] == pytest.approx(reference_values["corpus_bleu_default_13a"], abs=1e-6)
    assert measures["exact_match"] == pytest.approx(1 / 3)


def test_texts_that_are_their_references_have_all_of_it(sacrebleu: None) -> None:
    texts = ["the cat sat on the mat today", "a dog ran over there again"]
    assert text_measures(texts, texts) == pytest.approx(
        {"bleu": 100.0, "chrf": 100.0, "exact_match": 1.0}
    )
    uneven = text_measures(texts, [texts[0], ("something else entirely", texts[1])])
    assert uneven["bleu"] == pytest.approx(100)


@pytest.mark.parity
def test_measures_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(3)
    probabilities = random.dirichlet(np.ones(4), 200)
    labels, answers = random.integers(0, 4, 200), probabilities.argmax(1)
    measures = classification_measures(probabilities, labels, list("abcd")).measures
    assert measures["accuracy"] == pytest.approx(metrics.accuracy_score(labels, answers))
    for name, score in (
        ("macro_f1", metrics.f1_score),
        ("macro_precision", metrics.precision_score),
        ("macro_recall", metrics.recall_score),
    ):
        assert measures[name] == pytest.approx(score(labels, answers, average="macro"))
    binary = classification_measures(probabilities[:, :2], labels % 2, SPAM).measures
    binary_answers = probabilities[:, :2].argmax(1)
    assert binary["f1"] == pytest.approx(metrics.f1_score(labels % 2, binary_answers))
    shares, yes = random.random((200, 3)), random.integers(0, 2, (200, 3))
    for average in ("macro", "micro"):
        own_f1 = classification_measures(shares, yes, list("abc")).measures[f"{average}_f1"]
        assert own_f1 == pytest.approx(metrics.f1_score(yes, shares >= 0.5, average=average))
