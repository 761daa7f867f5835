"""Measures of answers on held-out data: of classes, and of texts against references.

`display/metric_labels.py` has the labels of the measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.errors import RunError
from pellucid.extras import import_extra
from pellucid.maths.binary_cross_entropy import brier_score
from pellucid.maths.classification import (
    accuracy,
    confusion_matrix,
    expected_calibration_error,
    f1_score,
    precision_score,
    recall_score,
)

#: The number of bins for the calibration error, as in most of the literature.
_BINS = 15

Numbers = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ClassMeasures:
    """The measures of one class, which `texts` texts have."""

    name: str
    precision: float
    recall: float
    f1: float
    texts: int


@dataclass(frozen=True, slots=True)
class Classified:
    """Measures by name, the measures of each class, and the confusion matrix.

    `confusion` has a row for each true class and a column for each predicted class; it is None if
    a text may have several classes.
    """

    measures: Mapping[str, float]
    classes: tuple[ClassMeasures, ...]
    confusion: Numbers | None


def classification_measures(
    probabilities: Numbers, labels: Numbers, classes: Sequence[str]
) -> Classified:
    """The measures of a classifier: accuracy, F1, calibration and others.

    Args:
        probabilities: of each class of each text, (texts, classes).
        labels: the numbers of the classes, (texts,). If a text may have several, a 0 or 1 for each
            class, (texts, classes); then every class with .5 or more counts as predicted.
        classes: the names. With two of them `f1`, `precision` and `recall` are of the second.

    Raises:
        RunError: the shapes do not fit, there is no text, or a label is not a class.
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    labels = np.asarray(labels)
    n = len(classes)
    if probabilities.ndim != 2 or probabilities.shape[1] != n or not len(probabilities):
        raise RunError(
            f"probabilities have shape {probabilities.shape}: give a row for each text, at least "
            f"one, and a column for each of the {n} classes"
        )
    if labels.shape == probabilities.shape:
        return _measure_multi_label(probabilities, labels.astype(np.float64), classes)
    if labels.shape != (len(probabilities),):
        raise RunError(
            f"labels have shape {labels.shape}: give one for each of the {len(probabilities)} "
            "texts, or a row of 0 and 1 for each"
        )
    is_unknown = (labels < 0) | (labels >= n)
    if is_unknown.any():
        row = int(np.argmax(is_unknown))
        raise RunError(
            f"text {row} has label {labels[row]}, and the classes are 0 to {n - 1}: correct it"
        )
    return _measure_single_label(probabilities, labels.astype(np.int64), classes)


def _measure_single_label(
    probabilities: Numbers, labels: Numbers, classes: Sequence[str]
) -> Classified:
    predicted = probabilities.argmax(axis=1)
    targets, predictions = np.eye(len(classes))[labels], np.eye(len(classes))[predicted]
    confusion = confusion_matrix(targets, predictions)
    per_class = _each_class(confusion[None], classes)
    correct = (predicted == labels).astype(np.float64)
    # of two classes, the second is the positive one
    yes = per_class[1] if len(per_class) == 2 else None
    measures = {
        "accuracy": float(accuracy(confusion)),
        **({"f1": yes.f1, "precision": yes.precision, "recall": yes.recall} if yes else {}),
        **_over_classes(per_class),
        "ece": float(expected_calibration_error(probabilities.max(axis=1), correct, n_bins=_BINS)),
        # over all classes, as Brier counted
        "brier": float(brier_score(probabilities, targets).sum(axis=1).mean()),
    }
    return Classified(measures, per_class, confusion.astype(np.int64))


def _measure_multi_label(
    probabilities: Numbers, labels: Numbers, classes: Sequence[str]
) -> Classified:
    """The measures of a 0 or 1 for every class of every text."""
    if not np.isin(labels, (0.0, 1.0)).all():
        raise RunError("labels hold something else than 0 and 1: give a 0 or 1 for each class")
    predicted = (probabilities >= 0.5).astype(np.float64)
    confusions = np.stack(
        [
            confusion_matrix(_no_and_yes(labels[:, k]), _no_and_yes(predicted[:, k]))
            for k in range(len(classes))
        ]
    )
    per_class = _each_class(confusions, classes)
    # the confidence in each prediction, be it yes or no
    confidence = np.maximum(probabilities, 1 - probabilities).ravel()
    correct = (predicted == labels).astype(np.float64)
    measures = {
        "accuracy": float(correct.mean()),
        "exact_match": float(correct.all(axis=1).mean()),
        **_over_classes(per_class),
        "micro_f1": float(f1_score(confusions.sum(axis=0))[1]),
        "ece": float(expected_calibration_error(confidence, correct.ravel(), n_bins=_BINS)),
        "brier": float(brier_score(probabilities, labels).mean()),
    }
    return Classified(measures, per_class, None)


def _no_and_yes(yes: Numbers) -> Numbers:
    return np.stack([1 - yes, yes], axis=1)


def _each_class(confusions: Numbers, classes: Sequence[str]) -> tuple[ClassMeasures, ...]:
    """From one matrix over all classes, or from one of no and yes for each class."""
    shares = [f(confusions) for f in (precision_score, recall_score, f1_score)]
    counts = confusions.sum(axis=-1)
    binary = len(confusions) == len(classes) and confusions.shape[-1] == 2
    picked = [values[:, 1] if binary else values[0] for values in (*shares, counts)]
    return tuple(
        ClassMeasures(name, float(precision), float(recall), float(f1), int(texts))
        for name, precision, recall, f1, texts in zip(classes, *picked, strict=True)
    )


def _over_classes(per_class: Sequence[ClassMeasures]) -> dict[str, float]:
    """Means over classes; each class has the same weight."""
    return {
        "macro_f1": float(np.mean([measures.f1 for measures in per_class])),
        "macro_precision": float(np.mean([measures.precision for measures in per_class])),
        "macro_recall": float(np.mean([measures.recall for measures in per_class])),
    }


#: The expected text, or several of them that are all right.
Reference = str | Sequence[str]


def text_measures(
    hypotheses: Sequence[str], references: Sequence[Reference]
) -> Mapping[str, float]:
    """BLEU and chrF of a whole corpus by sacrebleu with its defaults, and the share that is equal.

    Args:
        hypotheses: the texts of the model.
        references: the expected texts, one or several for each.

    Raises:
        RunError: they differ in number, or there are none.
        LibraryError: the package sacrebleu is not installed.
    """
    reference_sets = _references(hypotheses, references)
    sacrebleu = sacrebleu_library()
    # by place instead of by text; None where a text has fewer than another
    by_place = [list(place) for place in zip_longest(*reference_sets)]
    return {
        "bleu": float(sacrebleu.corpus_bleu(list(hypotheses), by_place).score),
        "chrf": float(sacrebleu.corpus_chrf(list(hypotheses), by_place).score),
        "exact_match": exact_match(hypotheses, references),
    }


def sacrebleu_library() -> Any:
    """The module `sacrebleu`; ask for it before a long generation, too.

    Raises:
        LibraryError: it cannot be imported.
    """
    return import_extra("bleu", "sacrebleu")


def exact_match(hypotheses: Sequence[str], references: Sequence[Reference]) -> float:
    """The share of texts that equal one of their references, up to white space at both ends.

    Raises:
        RunError: they differ in number, or there are none.
    """
    reference_sets = _references(hypotheses, references)
    matches = [
        text.strip() in [reference.strip() for reference in reference_set]
        for text, reference_set in zip(hypotheses, reference_sets, strict=True)
    ]
    return sum(matches) / len(matches)


def _references(
    hypotheses: Sequence[str], references: Sequence[Reference]
) -> list[tuple[str, ...]]:
    reference_sets = [
        (reference,) if isinstance(reference, str) else tuple(reference) for reference in references
    ]
    if len(hypotheses) != len(reference_sets) or not reference_sets or not all(reference_sets):
        raise RunError(
            f"{len(hypotheses)} texts cannot be compared with {len(references)} references: give "
            "at least one text, and at least one reference for each"
        )
    return reference_sets
