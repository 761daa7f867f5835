"""Measures of a classifier: the confusion matrix, scores from it, and calibration.

None has a useful gradient: a count does not change when the weights change a little.
"""

from __future__ import annotations

from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.door import checks
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, not_negative, shares


@equation(y=shares("texts>=0 classes"), predicted=shares("texts>=0 classes"))
def confusion_matrix(y: Array, predicted: Array) -> Array:
    """How often the model predicted each class for texts of each class.

    C_ij = sum_n y_ni predicted_nj: texts of class i, predicted as j

    Args:
        y: (texts, classes), one-hot: the true classes. predicted: like y.
        Returns (classes, classes): a row for each true class, a column for each predicted class.
    Units:
        Texts.
    Fails:
        It counts all mistakes alike, even if some matter more.
    Raises:
        MathsError: the shapes differ, or entries are not between 0 and 1.
    Source:
        Miller and Nicely 1955, "An Analysis of Perceptual Confusions Among Some English
        Consonants", table I.
    Example:
        confusion_matrix(array([[1.0, 0.0], [0.0, 1.0]]), array([[1.0, 0.0], [1.0, 0.0]]))
    """
    return namespace(y, predicted).matrix_transpose(y) @ predicted


@equation(confusion=not_negative("... classes classes"))
def accuracy(confusion: Array) -> Array:
    """The share of correct predictions; 0 if there are none.

    accuracy = sum_k C_kk / sum_ij C_ij

    If every text has one class, the "micro" precision, recall and F1 are all equal to it.

    Args:
        confusion: (..., classes, classes), as from `confusion_matrix`. Returns (...).
    Fails:
        If 95% of the texts have one class, always predicting it gives 0.95. See `f1_score`.
    Raises:
        MathsError: it is not square, or a count is below 0.
    Source:
        Sokolova and Lapalme 2009, "A systematic analysis of performance measures for
        classification tasks", table 3.
    Example:
        accuracy(array([[8.0, 2.0], [1.0, 9.0]]))
    """
    correct, _, _ = _counts(confusion)
    xp = namespace(confusion)
    return _share(xp.sum(correct, axis=-1), xp.sum(confusion, axis=(-2, -1)))


@equation(accuracy)
def precision_score(confusion: Array) -> Array:
    """The share of correct ones among the texts predicted as a class; 0 if none is.

    precision_k = C_kk / sum_i C_ik

    Args:
        confusion: (..., classes, classes), as from `confusion_matrix`. Returns (..., classes).
    Fails:
        One single, correct prediction gives 1, even if all other texts of the class are missed.
    Raises:
        MathsError: it is not square, or a count is below 0.
    Source:
        van Rijsbergen 1979, "Information Retrieval", chapter 7.
    Example:
        precision_score(array([[8.0, 2.0], [1.0, 9.0]]))
    """
    correct, _, predicted = _counts(confusion)
    return _share(correct, predicted)


@equation(accuracy)
def recall_score(confusion: Array) -> Array:
    """The share of the texts of a class that are predicted as it; 0 if the class has no text.

    recall_k = C_kk / sum_j C_kj

    Args:
        confusion: (..., classes, classes), as from `confusion_matrix`. Returns (..., classes).
    Fails:
        Always predicting one class gives 1 for that class.
    Raises:
        MathsError: it is not square, or a count is below 0.
    Source:
        van Rijsbergen 1979, "Information Retrieval", chapter 7.
    Example:
        recall_score(array([[8.0, 2.0], [1.0, 9.0]]))
    """
    correct, actual, _ = _counts(confusion)
    return _share(correct, actual)


@equation(accuracy)
def f1_score(confusion: Array) -> Array:
    """The harmonic mean of precision and recall of each class; 0 if both are 0.

    F1_k = 2 C_kk / (sum_j C_kj + sum_i C_ik)

    The mean over classes ("macro") gives every class the same weight, even if it is rare. For no
    and yes as classes 0 and 1, the usual F1 is the second entry.

    Args:
        confusion: (..., classes, classes), as from `confusion_matrix`. Returns (..., classes).
    Fails:
        A class that is neither present nor predicted has 0, and lowers the mean over classes.
    Raises:
        MathsError: it is not square, or a count is below 0.
    Source:
        van Rijsbergen 1979, "Information Retrieval", chapter 7 (1 - E with equal weights).
    See also:
        `precision_score`, `recall_score`.
    Example:
        f1_score(array([[8.0, 2.0], [1.0, 9.0]]))
    """
    correct, actual, predicted = _counts(confusion)
    return _share(2 * correct, actual + predicted)


def _at_least_one_answer(confidence: Array) -> None:
    checks.at_least(1, **{"the number of answers": confidence.shape[0]})


@equation(
    _at_least_one_answer,
    confidence=shares("answers>=0"),
    right=shares("answers>=0"),
    n_bins=COUNT,
)
def calibration_bins(confidence: Array, right: Array, *, n_bins: int) -> tuple[Array, Array, Array]:
    """Answers grouped by confidence: each bin's share, mean confidence, and accuracy.

    bin b holds the n with b / B < c_n <= (b + 1) / B

    Args:
        confidence: (answers,), the probability of each predicted class. right: like it, 1 if the
            prediction is right, else 0. Returns three arrays (n_bins,); 0 where a bin is empty.
        n_bins: B, the number of bins.
    Fails:
        A bin with few answers is unreliable, and with many bins all have few.
    Raises:
        MathsError: the shapes differ, there is no answer, or one is not between 0 and 1.
    Source:
        Naeini, Cooper and Hauskrecht 2015, "Obtaining Well Calibrated Probabilities Using Bayesian
        Binning", section 3.
    Example:
        calibration_bins(array([0.9, 0.8, 0.3]), array([1.0, 0.0, 0.0]), n_bins=2)
    """
    xp = namespace(confidence, right)
    bins = xp.arange(n_bins, device=device_of(confidence))
    ends = xp.astype(bins[1:], confidence.dtype) / n_bins
    # the number of edges below an answer is the index of its bin
    above_edge = xp.astype(confidence[:, None] > ends[None, :], bins.dtype)
    in_bin = xp.astype(xp.sum(above_edge, axis=-1)[:, None] == bins[None, :], confidence.dtype)
    n = xp.sum(in_bin, axis=0)
    mean_confidence = _share(xp.sum(in_bin * confidence[:, None], axis=0), n)
    accuracies = _share(xp.sum(in_bin * right[:, None], axis=0), n)
    return n / confidence.shape[0], mean_confidence, accuracies


@equation(calibration_bins)
def expected_calibration_error(confidence: Array, right: Array, *, n_bins: int) -> Array:
    """The mean distance between confidence and accuracy, over `calibration_bins`.

    ECE = sum_b share_b |right_b - confidence_b|

    Args:
        As `calibration_bins`. Returns one number, between 0 and 1.
    Fails:
        Always predicting the most common class, with its frequency as confidence, gives 0. The
        result depends on the bins, and is too high if there are few answers.
    Raises:
        MathsError: the shapes differ, there is no answer, or one is not between 0 and 1.
    Source:
        Guo, Pleiss, Sun and Weinberger 2017, "On Calibration of Modern Neural Networks", eq. 3.
    Example:
        expected_calibration_error(array([0.9, 0.8, 0.3]), array([1.0, 0.0, 0.0]), n_bins=2)
    """
    share, mean_confidence, accuracies = calibration_bins(confidence, right, n_bins=n_bins)
    xp = namespace(confidence, right)
    return xp.sum(share * xp.abs(accuracies - mean_confidence))


def _counts(confusion: Array) -> tuple[Array, Array, Array]:
    """For each class the numbers of correct, actual and predicted texts."""
    xp = namespace(confusion)
    correct = xp.linalg.diagonal(confusion)
    return correct, xp.sum(confusion, axis=-1), xp.sum(confusion, axis=-2)


def _share(part: Array, total: Array) -> Array:
    """part / total, and 0 where total is 0."""
    xp = namespace(part, total)
    nonzero = total != 0
    return xp.where(
        nonzero, part / xp.where(nonzero, total, xp.ones_like(total)), xp.zeros_like(total)
    )
