"""How well classes are named: counts of what was taken for what, and whether confidence is earned.

Nothing here is learnt by its gradient: a count does not change by a little.
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
        Which mistakes cost more, it does not say.
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
    """The share that is right; 0 where there is nothing.

    accuracy = sum_k C_kk / sum_ij C_ij

    For texts of one class each this is precision, recall and F1 over all answers, too ("micro").

    Args:
        confusion: (..., classes, classes), as of `confusion_matrix`. Returns (...).
    Fails:
        Where 95% of texts are of one class, who always says that class has 0.95. See `f1_score`.
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
    """Of what was called a class, the share that is of it; 0 where nothing was called so.

    precision_k = C_kk / sum_i C_ik

    Args:
        confusion: (..., classes, classes), as of `confusion_matrix`. Returns (..., classes).
    Fails:
        Who names one text, and rightly, has 1 and has missed all others.
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
    """Of what is of a class, the share that was called so; 0 where nothing is of it.

    recall_k = C_kk / sum_j C_kj

    Args:
        confusion: (..., classes, classes), as of `confusion_matrix`. Returns (..., classes).
    Fails:
        Who calls everything by one name has 1 for it.
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
    """The harmonic mean of precision and recall of each class; 0 where both are 0.

    F1_k = 2 C_kk / (sum_j C_kj + sum_i C_ik)

    The mean over classes ("macro") counts every class alike, however rare. For yes and no the F1 of
    yes is that of the second class.

    Args:
        confusion: (..., classes, classes), as of `confusion_matrix`. Returns (..., classes).
    Fails:
        A class that neither came nor was said has 0, and pulls the mean over classes down.
    Raises:
        MathsError: it is not square, or a count is below 0.
    Source:
        van Rijsbergen 1979, "Information Retrieval", chapter 7 (1 - E with both weighed alike).
    See also:
        `precision_score` and `recall_score`
    Example:
        f1_score(array([[8.0, 2.0], [1.0, 9.0]]))
    """
    correct, actual, predicted = _counts(confusion)
    return _share(2 * correct, actual + predicted)


def _some_answers(confidence: Array) -> None:
    checks.at_least(1, **{"the number of answers": confidence.shape[0]})


@equation(
    _some_answers,
    confidence=shares("answers>=0"),
    right=shares("answers>=0"),
    n_bins=COUNT,
)
def calibration_bins(confidence: Array, right: Array, *, n_bins: int) -> tuple[Array, Array, Array]:
    """Answers sorted by how sure they were: each bin's share, confidence, and share that is right.

    bin b holds the n with b / B < c_n <= (b + 1) / B

    Args:
        confidence: (answers,), of what was said. right: like it, 1 where it was right and 0 where
            not. Returns three arrays (n_bins,); 0 where a bin is empty.
    Fails:
        A bin of few answers says little; with many bins all have few.
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
    # as many ends are below it as there are bins before its own
    above_edge = xp.astype(confidence[:, None] > ends[None, :], bins.dtype)
    in_bin = xp.astype(xp.sum(above_edge, axis=-1)[:, None] == bins[None, :], confidence.dtype)
    n = xp.sum(in_bin, axis=0)
    sure = _share(xp.sum(in_bin * confidence[:, None], axis=0), n)
    hit = _share(xp.sum(in_bin * right[:, None], axis=0), n)
    return n / confidence.shape[0], sure, hit


@equation(calibration_bins)
def expected_calibration_error(confidence: Array, right: Array, *, n_bins: int) -> Array:
    """How far confidence is from the share that is right, on average over `calibration_bins`.

    ECE = sum_b share_b |right_b - confidence_b|

    Args:
        As `calibration_bins`. Returns one number, between 0 and 1.
    Fails:
        Who says the share of the commonest class each time has 0, and knows nothing. It depends on
        the bins, and is too high where there are few answers.
    Raises:
        MathsError: the shapes differ, there is no answer, or one is not between 0 and 1.
    Source:
        Guo, Pleiss, Sun and Weinberger 2017, "On Calibration of Modern Neural Networks", eq. 3.
    Example:
        expected_calibration_error(array([0.9, 0.8, 0.3]), array([1.0, 0.0, 0.0]), n_bins=2)
    """
    share, sure, hit = calibration_bins(confidence, right, n_bins=n_bins)
    xp = namespace(confidence, right)
    return xp.sum(share * xp.abs(hit - sure))


def _counts(confusion: Array) -> tuple[Array, Array, Array]:
    """Of each class: how many are right, how many came, how many were said."""
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
