"""Claims about least squares: penalties on weights, and more weights than rows."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pellucid.course.experiments.picture import Curves, bars, curve
from pellucid.course.experiments.record import (
    Experiment,
    Question,
    Reading,
    Setting,
    Source,
    lower_bound,
    upper_bound,
)
from pellucid.maths.penalties import elastic_net_prox


def _features_kept(setting: Setting) -> Reading:
    random = np.random.default_rng(setting.seed)
    x = random.normal(size=(200, 20))
    x[:, 1] = x[:, 0] + 0.01 * random.normal(size=200)
    truth = np.zeros(20)
    truth[[0, 1, 2, 3]] = (1.0, 1.0, -2.0, 1.5)
    y = x @ truth + 0.5 * random.normal(size=200)
    weights = {
        "none": _fit(x, y, 0.0, 0.0),
        "L1": _fit(x, y, 0.2, 0.0),
        "L2": _fit(x, y, 0.0, 0.2),
        "elastic net": _fit(x, y, 0.2, 0.2),
    }
    zeros = {name: float((w[4:] == 0).mean()) for name, w in weights.items()}
    gap = {name: float(abs(w[0] - w[1])) for name, w in weights.items()}
    return Reading(
        numbers={f"useless features at exactly 0, {name}": zeros[name] for name in weights}
        | {f"difference of two near-copies, {name}": gap[name] for name in ("L1", "elastic net")}
        | {"difference of near-copies, elastic net minus L1": gap["elastic net"] - gap["L1"]},
        picture=bars("Share of 16 useless features at exactly 0", zeros),
    )


def _fit(x: Any, y: Any, l1: float, l2: float) -> Any:
    """Least squares with penalties, by 2,000 proximal steps."""
    w = np.zeros(x.shape[1])
    step = 0.9 / float(np.linalg.eigvalsh(x.T @ x / len(y))[-1])
    for _ in range(2000):
        w = w - step * x.T @ (x @ w - y) / len(y)
        w = elastic_net_prox(w, l1=l1, l2=l2, step=step)
    return w


def _diamond(setting: Setting) -> Reading:
    random = np.random.default_rng(setting.seed)
    angles = np.linspace(0, 2 * np.pi, 721)[:-1]
    circle = np.stack([np.cos(angles), np.sin(angles)], -1)
    diamond = circle / np.abs(circle).sum(-1, keepdims=True)
    # the exact corners are among the points: 720 is a multiple of 4
    corners: dict[str, int] = {"L1 diamond": 0, "L2 circle": 0}
    n_problems = 400
    for _ in range(n_problems):
        root = random.normal(size=(2, 2))
        centre = random.normal(size=2) * 3
        for name, shape in (("L1 diamond", diamond), ("L2 circle", circle)):
            loss = (((shape - centre) @ root.T) ** 2).sum(-1)
            corners[name] += int(np.abs(shape[loss.argmin()]).min() < 1e-9)
    shares = {name: count / n_problems for name, count in corners.items()}
    return Reading(
        numbers={f"solutions with a weight of 0, {name}": share for name, share in shares.items()},
        picture=Curves(
            title="All pairs of weights with the same penalty: corners lie on the axes",
            x_label="first weight",
            y_label="second weight",
            curves=(
                curve("L1", [*diamond[::20, 0], 1.0], [*diamond[::20, 1], 0.0]),
                curve("L2", [*circle[::20, 0], 1.0], [*circle[::20, 1], 0.0]),
            ),
        ),
    )


def _double_descent(setting: Setting) -> Reading:
    random = np.random.default_rng(setting.seed)
    n_rows, n_inputs = 60, 20
    truth = random.normal(size=n_inputs) / n_inputs**0.5
    sizes = (5, 10, 20, 30, 45, 55, 60, 65, 80, 120, 300, 1000)

    def draw(rows: int) -> tuple[Any, Any]:
        x = random.normal(size=(rows, n_inputs))
        return x, x @ truth + 0.3 * random.normal(size=rows)

    (x, y), (test_x, test_y) = draw(n_rows), draw(1000)
    errors: list[float] = []
    for size in sizes:
        mix = random.normal(size=(n_inputs, size)) / n_inputs**0.5
        features, test = np.maximum(x @ mix, 0), np.maximum(test_x @ mix, 0)
        w = cast("Any", np.linalg).pinv(features) @ y
        errors.append(float(((test @ w - test_y) ** 2).mean()))
    at_peak, classical = errors[sizes.index(60)], min(errors[:4])
    return Reading(
        numbers={
            "log10 of error at 60 features over the best below": float(
                np.log10(at_peak / classical)
            ),
            "log10 of error at 1,000 features over error at 60": float(
                np.log10(errors[-1] / at_peak)
            ),
        },
        picture=Curves(
            title="Least squares on random ReLU features, 60 rows: the error on new rows",
            x_label="features",
            y_label="mean squared error",
            curves=(curve("test error", sizes, errors),),
            log_x=True,
            log_y=True,
        ),
    )


EXPERIMENTS = (
    Experiment(
        name="features-that-penalties-keep",
        title="L1, L2 and elastic net: the features that they keep",
        description="Fit a line to 20 features: 16 are useless, and two are near-copies.",
        question=Question(
            text="Which penalty sets useless weights to exactly 0?",
            choices=("L1 and elastic net", "L2", "all of them"),
        ),
        claim="L1 makes useless weights exactly 0, L2 makes none 0, and elastic net also keeps "
        "near-copies together.",
        source=Source(
            authors="Zou and Hastie",
            year=2005,
            title="Regularization and Variable Selection via the Elastic Net",
            place="section 2.3",
        ),
        concepts=("l1_prox", "l2_prox", "elastic_net_prox", "penalties.l1"),
        checks=(
            lower_bound("useless features at exactly 0, L1", 0.8),
            upper_bound("useless features at exactly 0, L2", 0.0),
            lower_bound("useless features at exactly 0, elastic net", 0.8),
            upper_bound("difference of near-copies, elastic net minus L1", 0.0),
        ),
        measure=_features_kept,
        seeds=8,
        quick_seeds=5,
    ),
    Experiment(
        name="diamond-and-circle",
        title="The L1 diamond and the L2 circle",
        description="Minimise 400 random bowls over a diamond and over a circle.",
        question=Question(
            text="How often does the best point of the diamond lie exactly on an axis?",
            choices=("often", "almost never", "always"),
        ),
        claim="The corners of L1's diamond lie on the axes, so solutions often have a weight of "
        "exactly 0; L2's circle has no corners.",
        source=Source(
            authors="Tibshirani",
            year=1996,
            title="Regression Shrinkage and Selection via the Lasso",
            place="section 2.3",
        ),
        concepts=("l1_penalty", "l2_penalty"),
        checks=(
            lower_bound("solutions with a weight of 0, L1 diamond", 0.3),
            upper_bound("solutions with a weight of 0, L2 circle", 0.05),
        ),
        measure=_diamond,
        seeds=8,
        quick_seeds=5,
    ),
    Experiment(
        name="double-descent",
        title="Double descent in a small model",
        description="Fit 60 rows with 5 to 1,000 random features, and test on new rows.",
        question=Question(
            text="With exactly as many features as rows the test error is",
            choices=("at a peak", "at its lowest", "the same as with fewer"),
        ),
        claim="The test error peaks where the model just fits its data, and falls again with many "
        "more weights.",
        source=Source(
            authors="Belkin et al.",
            year=2019,
            title="Reconciling Modern Machine-Learning Practice and the Classical Bias-Variance "
            "Trade-off",
            place="figure 2",
        ),
        concepts=("relu", "l2_penalty"),
        checks=(
            lower_bound("log10 of error at 60 features over the best below", 0.3),
            upper_bound("log10 of error at 1,000 features over error at 60", -0.3),
        ),
        measure=_double_descent,
        seeds=40,
        quick_seeds=20,
    ),
)
