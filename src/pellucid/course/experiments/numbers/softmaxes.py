"""Claims about softmax and its temperature."""

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
from pellucid.maths.divergences import entropy
from pellucid.maths.saturation import normalised_entropy
from pellucid.maths.softmax import softmax, softmax_jacobian

_SCALES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def _saturation(setting: Setting) -> Reading:
    scores = np.random.default_rng(setting.seed).normal(size=(256, 16))
    largest: list[float] = []
    slopes: list[float] = []
    for scale in _SCALES:
        weights = softmax(scores * scale)
        largest.append(float(weights.max(-1).mean()))
        jacobians = softmax_jacobian(scores * scale)
        slopes.append(float(np.abs(jacobians).sum((-2, -1)).mean()))
    return Reading(
        numbers={
            "largest weight at scale 1": largest[2],
            "largest weight at scale 16": largest[-1],
            "slope at scale 16 over slope at scale 1": slopes[-1] / slopes[2],
        },
        picture=Curves(
            title="The largest of 16 weights, and the sum of all slopes, by the scale of scores",
            x_label="scale",
            y_label="mean over 256 rows",
            curves=(
                curve("largest weight", _SCALES, largest),
                curve("slopes (sum of |dp/dx|)", _SCALES, slopes),
            ),
            log_x=True,
        ),
    )


def _plain_sum(setting: Setting) -> Reading:
    scores = np.array([10.0, 5.0, 1.0])
    weights, plain = softmax(scores), scores / scores.sum()
    negative = np.array([2.0, -1.0, 0.5])
    return Reading(
        numbers={
            "softmax of 10 among 10, 5, 1": weights[0],
            "10 over the plain sum": plain[0],
            "softmax's smallest weight of 2, -1, 0.5": softmax(negative).min(),
            "smallest share of 2, -1, 0.5 by the plain sum": (negative / negative.sum()).min(),
        },
        picture=bars(
            "Weights of the scores 10, 5, 1",
            {
                "softmax: 10": weights[0],
                "softmax: 5": weights[1],
                "softmax: 1": weights[2],
                "plain sum: 10": plain[0],
                "plain sum: 5": plain[1],
                "plain sum: 1": plain[2],
            },
        ),
    )


def _temperature(setting: Setting) -> Reading:
    logits = np.random.default_rng(setting.seed).normal(size=(64, 50)) * 2
    temperatures = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)
    entropies: list[float] = []
    for temperature in temperatures:
        p = softmax(logits, temperature=temperature)
        entropies.append(float(entropy(p).mean()))
    n_changes = sum(
        int((softmax(logits, temperature=t).argmax(-1) != logits.argmax(-1)).sum())
        for t in temperatures
    )
    return Reading(
        numbers={
            "entropy at 0.1 (nats)": entropies[0],
            "entropy at 10 over entropy of even odds": entropies[-1] / np.log(50),
            "smallest rise between neighbours (nats)": min(np.diff(entropies)),
            "rows whose likeliest token changes": n_changes,
        },
        picture=Curves(
            title="Entropy of softmax over 50 tokens",
            x_label="temperature",
            y_label="nats",
            curves=(curve("entropy", temperatures, entropies),),
            log_x=True,
        ),
    )


def _root_of_d(setting: Setting) -> Reading:
    random = np.random.default_rng(setting.seed)
    widths = (4, 16, 64, 256)
    plain: list[float] = []
    scaled: list[float] = []
    slopes: dict[str, float] = {}
    for width in widths:
        q, k = random.normal(size=(2, 64, width))
        scores = q @ k.T
        plain.append(float(scores.var()))
        scaled.append(float((scores / width**0.5).var()))
        for name, rows in (("plain", scores), ("root", scores / width**0.5)):
            # the sum of the diagonal of softmax's Jacobian
            slopes[f"{name} {width}"] = 1 - float((softmax(rows) ** 2).sum(-1).mean())
    return Reading(
        numbers={
            "variance of q.k over d, d = 256": plain[-1] / 256,
            "variance of q.k over root d, d = 256": scaled[-1],
            "softmax's slope without scale over slope with it, d = 256": slopes["plain 256"]
            / slopes["root 256"],
        },
        picture=Curves(
            title="The variance of scores by the width of a head",
            x_label="d",
            y_label="variance",
            curves=(
                curve("q.k", widths, plain),
                curve("q.k over root of d", widths, scaled),
            ),
            log_x=True,
            log_y=True,
        ),
    )


def _by_d(setting: Setting) -> Reading:
    random = np.random.default_rng(setting.seed)
    widths = (4, 16, 64, 256)
    entropies: dict[str, list[float]] = {"d": [], "root of d": []}
    for width in widths:
        q, k = random.normal(size=(2, 64, width))
        for name, scale in (("d", width), ("root of d", width**0.5)):
            weights = softmax(q @ k.T / scale)
            entropies[name].append(float(normalised_entropy(weights).mean()))
    return Reading(
        numbers={
            "evenness of weights over d, d = 256": entropies["d"][-1],
            "evenness of weights over root of d, d = 256": entropies["root of d"][-1],
        },
        picture=Curves(
            title="How even attention to 64 keys is; 1 means all weights are equal",
            x_label="d",
            y_label="entropy over log 64",
            curves=tuple(curve(name, widths, values) for name, values in entropies.items()),
            log_x=True,
        ),
    )


_ATTENTION = Source(
    authors="Vaswani et al.", year=2017, title="Attention Is All You Need", place="section 3.2.1"
)

EXPERIMENTS = (
    Experiment(
        name="softmax-saturation",
        title="Softmax saturates as scores grow",
        description="Multiply random scores by a growing scale, and watch the weights and slopes.",
        question=Question(
            text="16 random scores are multiplied by 16. What happens to softmax's slopes?",
            choices=("they shrink towards zero", "they stay the same", "they grow"),
        ),
        claim="With large scores softmax puts almost all weight on one entry, and its gradients "
        "become extremely small.",
        source=_ATTENTION,
        concepts=("softmax", "softmax_jacobian", "softmax_slope"),
        checks=(
            lower_bound("largest weight at scale 16", 0.9),
            upper_bound("slope at scale 16 over slope at scale 1", 0.5),
        ),
        measure=_saturation,
        seeds=10,
        quick_seeds=5,
    ),
    Experiment(
        name="softmax-against-plain-sum",
        title="Softmax against dividing by the plain sum",
        description="Turn the scores 10, 5, 1 into shares in two ways, then try a negative score.",
        question=Question(
            text="Softmax gives 10 among 10, 5, 1 a weight of 99.3%. And the plain sum?",
            choices=("62.5%", "99.3%", "33.3%"),
        ),
        claim="Softmax sharpens differences and takes any score; dividing by the plain sum gives "
        "10 only 62.5%, and no probabilities for negative scores.",
        source=Source(
            authors="Bishop",
            year=2006,
            title="Pattern Recognition and Machine Learning",
            place="section 4.3.4",
        ),
        concepts=("softmax", "sum_normalise"),
        checks=(
            in_range("softmax of 10 among 10, 5, 1", 0.9925, 0.9935),
            in_range("10 over the plain sum", 0.6245, 0.6255),
            lower_bound("softmax's smallest weight of 2, -1, 0.5", 1e-9),
            upper_bound("smallest share of 2, -1, 0.5 by the plain sum", -1e-9),
        ),
        measure=_plain_sum,
    ),
    Experiment(
        name="temperature",
        title="Temperature sharpens or flattens, and keeps the order",
        description="Sweep the temperature of softmax over random logits of 50 tokens.",
        question=Question(
            text="You raise the temperature from 1 to 4. Which token is likeliest now?",
            choices=("the same one", "another one", "a random one"),
        ),
        claim="A higher temperature makes the distribution more even without changing the order "
        "of the tokens; towards zero only the likeliest token remains.",
        source=Source(
            authors="Hinton, Vinyals and Dean",
            year=2015,
            title="Distilling the Knowledge in a Neural Network",
            place="section 2",
        ),
        concepts=("softmax", "entropy"),
        checks=(
            upper_bound("entropy at 0.1 (nats)", 0.3),
            lower_bound("entropy at 10 over entropy of even odds", 0.95),
            lower_bound("smallest rise between neighbours (nats)", 0.0),
            in_range("rows whose likeliest token changes", 0, 0),
        ),
        measure=_temperature,
        seeds=10,
        quick_seeds=5,
    ),
    Experiment(
        name="root-of-d",
        title="Why scores are divided by the root of d",
        description="Draw random queries and keys of growing width, with and without the scale.",
        question=Question(
            text="Queries and keys have 256 random features. The variance of q.k is",
            choices=("about 256", "about 16", "about 1"),
        ),
        claim="The variance of q.k is d; dividing by the root of d makes it 1 and keeps softmax "
        "from saturating.",
        source=_ATTENTION,
        concepts=("attention_weights", "softmax_jacobian", "model.decoder.attention.scale"),
        checks=(
            in_range("variance of q.k over d, d = 256", 0.9, 1.1),
            in_range("variance of q.k over root d, d = 256", 0.9, 1.1),
            upper_bound("softmax's slope without scale over slope with it, d = 256", 0.5),
        ),
        measure=_root_of_d,
        seeds=10,
        quick_seeds=5,
    ),
    Experiment(
        name="dividing-by-d",
        title="Dividing by d in place of its root",
        description="Divide the same scores by d and by its root, and compare how even attention "
        "becomes.",
        question=Question(
            text="Scores of 256 features are divided by 256, not by 16. Attention then is",
            choices=("almost even over all keys", "about the same", "on one key only"),
        ),
        claim="Dividing by d shrinks scores too far: attention of random vectors becomes almost "
        "an average over all keys.",
        source=_ATTENTION,
        concepts=("attention_weights", "normalised_entropy"),
        checks=(
            lower_bound("evenness of weights over d, d = 256", 0.99),
            upper_bound("evenness of weights over root of d, d = 256", 0.95),
        ),
        measure=_by_d,
        seeds=10,
        quick_seeds=5,
    ),
)
