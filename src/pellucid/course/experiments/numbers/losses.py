"""Claims about probabilities, their logarithms, and the losses made of them."""

from __future__ import annotations

import numpy as np

from pellucid.course.experiments.picture import Curves, bars, curve
from pellucid.course.experiments.record import (
    Experiment,
    Question,
    Reading,
    Setting,
    Source,
    in_range,
    lower_bound,
    upper_bound,
)
from pellucid.maths.cross_entropy import cross_entropy, cross_entropy_grad
from pellucid.maths.optimisers import sgd_step
from pellucid.maths.softmax import softmax, softmax_grad

_DEEP_LEARNING = "Goodfellow, Bengio and Courville"


def _underflow(setting: Setting) -> Reading:
    lengths = range(1, 401)
    products = np.cumprod(np.full(400, 0.1))
    sums = np.cumsum(np.log(np.full(400, 0.1)))
    return Reading(
        numbers={
            "product of 400 probabilities of 0.1": products[-1],
            "sum of their logarithms (nats)": sums[-1],
            "tokens until the product is exactly 0": int((products > 0).sum()) + 1,
        },
        picture=Curves(
            title="A text of tokens with probability 0.1 each: two ways to keep its probability",
            x_label="tokens",
            y_label="powers of ten",
            curves=(
                curve("sum of logs", lengths, sums / np.log(10)),
                curve(
                    "log of the product, while it is above 0",
                    range(1, int((products > 0).sum()) + 1),
                    np.log10(products[products > 0]),
                ),
            ),
        ),
    )


def _minus_log(setting: Setting) -> Reading:
    p = np.array([0.9, 0.5, 0.1, 0.01, 0.001])
    surprisal = -np.log(p)
    return Reading(
        numbers={
            "-log 0.9 (nats)": surprisal[0],
            "-log 0.01 (nats)": surprisal[3],
            "-log 0.01 over -log 0.9": surprisal[3] / surprisal[0],
        },
        picture=bars(
            "-log p in nats", {f"p = {a:g}": b for a, b in zip(p, surprisal, strict=True)}
        ),
    )


def _confident_mistake(setting: Setting) -> Reading:
    gaps = np.linspace(0, 12, 25)
    logits = np.stack([gaps, np.zeros(25)], -1)
    target = np.ones(25, dtype=np.int64)
    loss = cross_entropy(logits, target)
    slope = np.abs(cross_entropy_grad(logits, target))[:, 1]
    return Reading(
        numbers={
            "loss at even odds (nats)": loss[0],
            "loss of a confident mistake, 12 logits apart (nats)": loss[-1],
            "gradient at the right token's logit, 12 apart": slope[-1],
            "loss added by the last logit of confidence": (loss[-1] - loss[-3]),
        },
        picture=Curves(
            title="Two tokens; the wrong one leads",
            x_label="logits by which the wrong token leads",
            y_label="nats",
            curves=(curve("cross-entropy", gaps, loss), curve("|p - y|", gaps, slope)),
        ),
    )


def _squared_error(setting: Setting) -> Reading:
    gaps = np.linspace(0, 12, 25)
    slopes: dict[str, list[float]] = {"cross-entropy": [], "squared error": []}
    for gap in gaps:
        logits, y = np.array([gap, 0.0]), np.array([0.0, 1.0])
        p = softmax(logits)
        slopes["cross-entropy"].append(float(np.abs(p - y).max()))
        by_squares = softmax_grad(logits, 2 * (p - y))
        slopes["squared error"].append(float(np.abs(by_squares).max()))
    steps = {name: float(_steps_until_right(name)) for name in slopes}
    return Reading(
        numbers={
            "gradient of cross-entropy, 12 logits wrong": slopes["cross-entropy"][-1],
            "gradient of squared error, 12 logits wrong": slopes["squared error"][-1],
            "steps to p > 0.5 with cross-entropy, from 6 wrong": steps["cross-entropy"],
            "steps with squared error over steps with cross-entropy": steps["squared error"]
            / steps["cross-entropy"],
        },
        picture=Curves(
            title="The gradient that corrects a mistake",
            x_label="logits by which the wrong token leads",
            y_label="largest gradient of a logit",
            curves=tuple(curve(name, gaps, values) for name, values in slopes.items()),
        ),
    )


def _steps_until_right(loss: str, *, start: float = 6.0, learning_rate: float = 0.5) -> int:
    logits, y = np.array([start, 0.0]), np.array([0.0, 1.0])
    for step in range(100_000):
        p = softmax(logits)
        if p[1] > 0.5:
            return step
        grad = p - y if loss == "cross-entropy" else softmax_grad(logits, 2 * (p - y))
        logits = sgd_step(logits, grad, learning_rate=learning_rate)
    return 100_000


EXPERIMENTS = (
    Experiment(
        name="product-underflows",
        title="The product of probabilities underflows, the sum of logs does not",
        description="Multiply 400 probabilities of 0.1 in float64, and add their logarithms.",
        question=Question(
            text="400 tokens have probability 0.1 each. What does float64 give as their product?",
            choices=("exactly 0", "1e-400", "an error"),
        ),
        claim="The probability of a long text is too small for a float; its logarithm is an "
        "ordinary number.",
        source=Source(
            authors="Jurafsky and Martin",
            year=2009,
            title="Speech and Language Processing",
            place="second edition, section 4.2",
        ),
        concepts=("sequence_log_likelihood", "perplexity"),
        checks=(
            in_range("product of 400 probabilities of 0.1", 0, 0),
            in_range("sum of their logarithms (nats)", -921.04, -921.03),
        ),
        measure=_underflow,
    ),
    Experiment(
        name="minus-log",
        title="-log p: cheap if expected, dear if not",
        description="Compute -log p for a good prediction and for a bad one.",
        question=Question(
            text="The right token had probability 0.9, or 0.01. How much dearer is the second?",
            choices=("about 44 times", "about 90 times", "about twice"),
        ),
        claim="-log p is near 0 at 0.9 (0.105 nats) and large at 0.01 (4.6 nats).",
        source=Source(
            authors="Shannon",
            year=1948,
            title="A Mathematical Theory of Communication",
            place="section 6",
        ),
        concepts=("cross_entropy_from_probabilities", "cross_entropy"),
        checks=(
            in_range("-log 0.9 (nats)", 0.105, 0.106),
            in_range("-log 0.01 (nats)", 4.6, 4.61),
            in_range("-log 0.01 over -log 0.9", 43, 44.5),
        ),
        measure=_minus_log,
    ),
    Experiment(
        name="confident-mistake",
        title="Cross-entropy of a confident mistake",
        description="Let the wrong one of two tokens lead by more and more, and read the loss.",
        question=Question(
            text="The wrong token leads by 11 logits, then by 12. How much does the loss grow?",
            choices=("by about 1 nat", "by almost nothing", "by 12 nats"),
        ),
        claim="Cross-entropy punishes a confident mistake without limit: its loss grows by one nat "
        "with each logit, while the gradient stays at most 1.",
        source=Source(
            authors=_DEEP_LEARNING, year=2016, title="Deep Learning", place="section 6.2.2.3"
        ),
        concepts=("cross_entropy", "cross_entropy_grad"),
        checks=(
            in_range("loss added by the last logit of confidence", 0.99, 1.01),
            lower_bound("loss of a confident mistake, 12 logits apart (nats)", 11.9),
            in_range("gradient at the right token's logit, 12 apart", 0.99, 1.0),
        ),
        measure=_confident_mistake,
    ),
    Experiment(
        name="cross-entropy-against-squared-error",
        title="Cross-entropy against squared error",
        description="Compare the gradients of two losses as a prediction becomes more wrong.",
        question=Question(
            text="A softmax is confidently wrong. Which loss gives the larger gradient?",
            choices=("cross-entropy", "squared error", "both the same"),
        ),
        claim="With softmax the squared error has almost no gradient where the model is "
        "confidently wrong; cross-entropy has p - y.",
        source=Source(
            authors=_DEEP_LEARNING, year=2016, title="Deep Learning", place="section 6.2.2.3"
        ),
        concepts=("cross_entropy_grad", "softmax_grad", "brier_score"),
        checks=(
            lower_bound("gradient of cross-entropy, 12 logits wrong", 0.99),
            upper_bound("gradient of squared error, 12 logits wrong", 0.01),
            lower_bound("steps with squared error over steps with cross-entropy", 2),
        ),
        measure=_squared_error,
    ),
)
