"""Pictures of lessons that no chapter of a sentence shows: curves of the equations themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid.explain.chapter_types import Bars, Lines
from pellucid.maths.activations import gelu, relu, silu
from pellucid.maths.attention.attention import soft_cap
from pellucid.maths.divergences import entropy, kl_divergence
from pellucid.maths.dpo import dpo_loss, hinge_preference_loss
from pellucid.maths.experts.balancing import load_balancing_loss
from pellucid.maths.gaussian_kl import gaussian_kl
from pellucid.maths.initialisation import chained_variance
from pellucid.maths.logistic import sigmoid
from pellucid.maths.penalties import l1_prox, l2_prox
from pellucid.maths.policy_gradient import clipped_policy_loss
from pellucid.maths.positions.relative_positions import alibi_slopes
from pellucid.maths.positions.rotary import rotary_frequencies
from pellucid.maths.positions.rotary_scaling import interpolated_frequencies, ntk_frequencies
from pellucid.maths.scans import linear_scan
from pellucid.maths.schedules import cosine, linear
from pellucid.maths.softmax import softmax

_PLACES = 41


def draw_curve(name: str) -> Bars | Lines:
    """The picture of this name."""
    return _PICTURES[name]()


def _lines(title: str, x: Sequence[float], unit: str, **series: Any) -> Lines:
    return Lines(
        title=title,
        names=tuple(series),
        x=tuple(map(float, x)),
        series=tuple(tuple(map(float, values)) for values in series.values()),
        x_unit=unit,
    )


def _range(low: float, high: float) -> np.ndarray[Any, Any]:
    return np.linspace(low, high, _PLACES)


def _frequencies() -> Lines:
    pairs = np.arange(8.0)
    plain = rotary_frequencies(pairs, n_rotated=16, base=10_000.0)
    return _lines(
        "logarithm of the frequency of each pair, as trained and for texts 4 times as long",
        list(pairs),
        "pair",
        plain=np.log10(plain),
        divided=np.log10(interpolated_frequencies(plain, factor=4.0)),
        ntk=np.log10(ntk_frequencies(plain, factor=4.0)),
    )


def _alibi() -> Lines:
    slopes = alibi_slopes(np.arange(2.0), n_heads=2)
    distances = np.arange(0.0, 32.0)
    series = {f"head{i}": -slope * distances for i, slope in enumerate(slopes)}
    return _lines("the bias of a score by distance", list(distances), "distance", **series)


def _cost() -> Lines:
    lengths = _range(1, 16)
    return _lines(
        "cost by length: pairs of tokens, against one state",
        list(lengths),
        "length",
        softmax=lengths**2,
        linear=lengths,
    )


def _forgetting() -> Lines:
    impulse = np.zeros((_PLACES, 1))
    impulse[0] = 1.0
    series = {
        f"keep{decay}": linear_scan(np.full((_PLACES, 1), decay), impulse, np.zeros(1))[:, 0]
        for decay in (0.5, 0.9)
    }
    return _lines(
        "the share of the first token in the state",
        list(range(_PLACES)),
        "token",
        **series,
    )


def _variance() -> Lines:
    layers = range(1, 31)
    series = {
        f"x{factor}": [np.log10(chained_variance(1.0, factor=factor, n_layers=n)) for n in layers]
        for factor in (0.5, 1.0, 1.5)
    }
    return _lines(
        "logarithm of the variance by layer, for three factors of a layer",
        layers,
        "layer",
        **series,
    )


def _singular() -> Bars:
    return Bars(
        title="singular values of a matrix, and of the same one with spectral norm 1",
        names=("first", "second", "first, normed", "second, normed"),
        values=(2.0, 0.5, 1.0, 0.25),
    )


def _activations() -> Lines:
    x = _range(-4, 4)
    return _lines("activations", list(x), "x", relu=relu(x), gelu=gelu(x), silu=silu(x))


def _balance() -> Lines:
    shares = _range(0.5, 1.0)
    losses = [
        load_balancing_loss(np.array([share, 1 - share]), np.array([share, 1 - share]))
        for share in shares
    ]
    return _lines(
        "the loss of balance by the share of one of two experts",
        list(shares),
        "share",
        loss=losses,
    )


def _saturation() -> Lines:
    scales = _range(0.1, 8)
    shares = [softmax(scale * np.array([1.0, 0.5, 0.0])) for scale in scales]
    return _lines(
        "the largest share and its slope p (1 - p), as the scores grow",
        list(scales),
        "factor of the scores",
        share=[p[0] for p in shares],
        slope=[p[0] * (1 - p[0]) for p in shares],
    )


def _sigmoid() -> Lines:
    x = _range(-6, 6)
    return _lines(
        "the sigmoid, and a soft cap of 4",
        list(x),
        "logit",
        sigmoid=sigmoid(x),
        cap=soft_cap(x, cap=4.0),
    )


def _entropy() -> Lines:
    p = _range(0.01, 0.99)
    pairs = [np.array([share, 1 - share]) for share in p]
    fair = np.array([0.5, 0.5])
    return _lines(
        "entropy of two outcomes, and the KL from a fair coin",
        list(p),
        "probability of one",
        entropy=[entropy(pair) for pair in pairs],
        kl=[kl_divergence(pair, fair) for pair in pairs],
    )


def _gaussian() -> Lines:
    std = _range(0.3, 3)
    zero, unit = np.array(0.0), np.array(1.0)
    return _lines(
        "KL of a Gaussian from the standard one, by its width",
        list(std),
        "standard deviation",
        kl=[gaussian_kl(zero, np.array(width), zero, unit) for width in std],
    )


def _schedule() -> Lines:
    steps = range(0, 101, 2)
    return _lines(
        "the factor of the learning rate",
        steps,
        "step",
        cosine=[cosine(step, warm_up=10, total=100, final=0.0) for step in steps],
        linear=[linear(step, warm_up=10, total=100, final=0.0) for step in steps],
    )


def _penalties() -> Lines:
    w = _range(-2, 2)
    return _lines(
        "a weight after one proximal step",
        list(w),
        "weight",
        l1=l1_prox(w, strength=0.5, step=1.0),
        l2=l2_prox(w, strength=0.5, step=1.0),
    )


def _answer() -> Bars:
    return Bars(
        title="which tokens count: a prompt of three tokens, an answer of three",
        names=("prompt 1", "prompt 2", "prompt 3", "answer 1", "answer 2", "end"),
        values=(0.0, 0.0, 0.0, 1.0, 1.0, 1.0),
    )


def _temperature() -> Lines:
    temperatures = _range(0.3, 5)
    shares = [softmax(np.array([2.0, 1.0, 0.0]) / t) for t in temperatures]
    return _lines(
        "shares of three words by temperature",
        list(temperatures),
        "temperature",
        first=[p[0] for p in shares],
        second=[p[1] for p in shares],
        third=[p[2] for p in shares],
    )


def _preference() -> Lines:
    margins = _range(-4, 4)
    zero = np.array(0.0)
    return _lines(
        "the loss of a pair by its margin",
        list(margins),
        "margin",
        dpo=[dpo_loss(np.array(m), zero, zero, zero, beta=1.0) for m in margins],
        hinge=[hinge_preference_loss(np.array(m)) for m in margins],
    )


def _clipping() -> Lines:
    ratios = _range(0.4, 1.6)
    unit, zero = np.array(1.0), np.array(0.0)
    return _lines(
        "the clipped loss of a good answer by its ratio to the old policy",
        list(ratios),
        "ratio",
        loss=[clipped_policy_loss(np.log(ratio), zero, unit, clip=0.2) for ratio in ratios],
    )


_PICTURES: dict[str, Callable[[], Bars | Lines]] = {
    "frequencies": _frequencies,
    "alibi": _alibi,
    "cost": _cost,
    "forgetting": _forgetting,
    "variance": _variance,
    "singular": _singular,
    "activations": _activations,
    "balance": _balance,
    "saturation": _saturation,
    "sigmoid": _sigmoid,
    "entropy": _entropy,
    "gaussian": _gaussian,
    "schedule": _schedule,
    "penalties": _penalties,
    "answer": _answer,
    "temperature": _temperature,
    "preference": _preference,
    "clipping": _clipping,
}
