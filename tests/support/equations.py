"""Rows of the table of laws: an example of each equation, its hand gradient, extreme arguments.

Comes in: nothing. Goes out: what `tests/maths/test_laws.py` holds the equations to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pellucid import maths

Arrays = tuple[np.ndarray, ...]
Hand = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """An example of a function, its hand gradient, and extreme arguments.

    `hand` gives the gradient by the first argument, or a tuple of those by the first ones. The last
    arrays go by the names in `named`. `options` go with the example, `extreme_options`, where they
    differ, with the extremes. The arrays at `simplex` are distributions: differences of them are
    taken along the simplex, where their rows still sum to one.
    """

    arrays: Arrays
    options: dict[str, Any] = field(default_factory=dict)
    hand: Hand | None = None
    smooth: bool = True
    extremes: Sequence[Arrays] = ()
    extreme_options: dict[str, Any] | None = None
    named: tuple[str, ...] = ()
    simplex: tuple[int, ...] = ()

    def call(self, function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
        """`function` of arrays alone, with some of them by name."""

        def of_arrays(*arrays: Any) -> Any:
            first = len(arrays) - len(self.named)
            by_name = dict(zip(self.named, arrays[first:], strict=True))
            return function(*arrays[:first], **by_name, **options)

        return of_arrays


RANDOM = np.random.default_rng(11)


def some(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape)


def positive(*shape: int) -> np.ndarray:
    return RANDOM.uniform(0.1, 1.0, size=shape)


def each(function: Callable[..., Any], *arrays: np.ndarray) -> Arrays:
    """What a function makes of each array."""
    return tuple(function(array) for array in arrays)


# --- positions

PAIRS = np.arange(4.0)
THETA = 1e4 ** (-PAIRS / 4)
STRETCHED = {"factor": 8.0, "original_length": 64}
POSITIONS = np.array([-1e4, 1e4])
ANGLES = some(5, 2)
NO_TIME = np.zeros((2, 0, 6))
DISTANCES = np.arange(5)[None] - np.arange(3)[:, None]
CONTENT = some(2, 3, 4), some(2, 5, 4), some(6, 4), some(6, 4)
CONTENT_EXTREMES = tuple(part * 1e4 for part in CONTENT)
ROWS_OF_DISTANCES = np.array([[3, 2, 1, 0, 0], [4, 3, 2, 1, 0], [5, 4, 3, 2, 1]])
FAR = np.array([[-(10**6), -1, 0, 1, 10**6]])

POSITION_ROWS: dict[str, Row] = {
    "angles_at": Row((np.arange(5.0), THETA), extremes=[(POSITIONS, THETA)]),
    "rotary_angles": Row(
        (np.arange(5.0),),
        {"d_head": 6, "base": 1e4},
        extremes=[(POSITIONS,), (np.zeros(0),)],
    ),
    "rotary_frequencies": Row(
        (PAIRS,),
        {"n_rotated": 8, "base": 1e4},
        hand=lambda i, grad: grad * -0.25 * np.log(1e4) * 1e4 ** (-i / 4),
        extremes=[(np.zeros(0),), (np.array([1e4]),)],
    ),
    "sinusoid": Row(
        (np.arange(5.0),),
        {"d_model": 6, "base": 1e4, "offset": 2.0},
        extremes=[(POSITIONS,), (np.zeros(0),)],
    ),
    "interpolated_frequencies": Row((THETA,), {"factor": 4.0}, hand=lambda x, grad: grad / 4),
    "ntk_frequencies": Row((THETA,), {"factor": 4.0}, extremes=[(THETA[:1],)]),
    "dynamic_ntk_frequencies": Row((THETA,), {**STRETCHED, "length": 100}, extremes=[(THETA[:1],)]),
    "llama3_frequencies": Row(
        (THETA,),
        {**STRETCHED, "low": 0.5, "high": 4.0},
        extremes=[(np.array([1e4, 0.0]),)],
    ),
    "yarn_frequencies": Row(
        (THETA,),
        {**STRETCHED, "base": 1e4, "beta_fast": 8.0, "beta_slow": 0.5},
        extremes=[(np.array([1e4, 0.0, 1.0, 1.0]),)],
    ),
    "rotate": Row(
        (some(2, 5, 6), ANGLES),
        {"pairing": "interleaved"},
        hand=lambda x, angles, grad: maths.rotate_grad(angles, grad, pairing="interleaved"),
        extremes=[(some(2, 5, 6) * 1e4, ANGLES * 1e4), (NO_TIME, np.zeros((0, 2)))],
    ),
    "rotate_grad": Row(
        (ANGLES, some(2, 5, 6)),
        {"pairing": "half_split"},
        extremes=[(ANGLES * 1e4, some(2, 5, 6) * 1e4)],
    ),
    "to_half_split": Row(
        (some(2, 6),), hand=lambda x, grad: maths.to_interleaved(grad), extremes=[(NO_TIME,)]
    ),
    "to_interleaved": Row(
        (some(2, 6),), hand=lambda x, grad: maths.to_half_split(grad), extremes=[(NO_TIME,)]
    ),
    "relative_distances": Row((some(3), some(4)), extremes=[(np.zeros(0), some(3))]),
    "clipped_distance_index": Row(
        (DISTANCES,), {"max_distance": 2}, smooth=False, extremes=[(FAR,)]
    ),
    "distance_buckets": Row(
        (DISTANCES,),
        {"n_buckets": 8, "max_distance": 16, "causal": False},
        smooth=False,
        extremes=[(FAR,), (FAR[:0],)],
    ),
    "log_distance_rows": Row(
        (DISTANCES,),
        {"n_buckets": 8, "max_distance": 16},
        smooth=False,
        extremes=[(FAR,), (FAR[:0],)],
    ),
    "disentangled_bias": Row(
        (*CONTENT, ROWS_OF_DISTANCES),
        hand=maths.disentangled_bias_grad,
        extremes=[(*CONTENT_EXTREMES, ROWS_OF_DISTANCES)],
    ),
    "disentangled_bias_grad": Row(
        (*CONTENT, ROWS_OF_DISTANCES, some(2, 3, 5)),
        extremes=[(*CONTENT_EXTREMES, ROWS_OF_DISTANCES, some(2, 3, 5))],
    ),
    "alibi_slopes": Row((np.arange(6.0),), {"n_heads": 6}, smooth=False, extremes=[(np.zeros(0),)]),
    "alibi_bias": Row(
        (THETA, DISTANCES.astype(float)),
        hand=lambda slopes, distances, grad: -(grad * abs(distances)).sum((1, 2)),
        extremes=[(THETA, FAR.astype(float))],
    ),
}

# --- attention

Q, K, V = some(2, 3, 4), some(2, 5, 4), some(2, 5, 3)
SEEN = np.array([[True, False, True, True, False], [False] * 5, [True] * 5])
BIAS, SINK = some(3, 5), some(2)
SAME = (np.zeros((1, 2, 4)), np.zeros((1, 3, 4)), np.ones((1, 3, 2)))
LINEAR = {"eps": 1e-6, "causal": True}
QF, KF, VF = positive(2, 5, 3), positive(2, 5, 3), some(2, 5, 4)
NO_FEATURES = (np.zeros((1, 5, 3)), np.zeros((1, 5, 3)), VF[:1])


def _attention_hand(q: Any, k: Any, v: Any, mask: Any, bias: Any, sink: Any, grad: Any) -> Any:
    return maths.attention_grad(q, k, v, grad, mask=mask, bias=bias, sink=sink, cap=2.0)


def _with_masks(q: np.ndarray, k: np.ndarray, *rest: np.ndarray) -> Arrays:
    return q, k, *rest, SEEN, BIAS, SINK


MASKS = ("mask", "bias", "sink")
ATTENTION_ROWS: dict[str, Row] = {
    "soft_cap": Row(
        (some(3, 4),),
        {"cap": 2.0},
        hand=lambda x, grad: maths.soft_cap_grad(x, grad, cap=2.0),
        extremes=[(POSITIONS,)],
    ),
    "soft_cap_grad": Row((some(3, 4), some(3, 4)), {"cap": 2.0}, extremes=[(POSITIONS,) * 2]),
    "attention_weights": Row(
        _with_masks(Q, K),
        {"cap": 2.0},
        extremes=[_with_masks(Q * 1e4, K * 1e4)],
        extreme_options={},
        named=MASKS,
    ),
    "attention": Row(
        _with_masks(Q, K, V),
        {"cap": 2.0},
        hand=_attention_hand,
        extremes=[_with_masks(Q * 1e4, K * 1e4, V), (Q[:0], K[:0], V[:0], SEEN, BIAS, SINK[:0])],
        extreme_options={},
        named=MASKS,
    ),
    "attention_grad": Row(
        _with_masks(Q, K, V, some(2, 3, 3)),
        {"cap": 2.0},
        extremes=[_with_masks(Q * 1e4, K * 1e4, V, some(2, 3, 3))],
        extreme_options={},
        named=MASKS,
    ),
    "elu_features": Row((some(3, 4),), hand=maths.elu_features_grad, extremes=[(POSITIONS,)]),
    "elu_features_grad": Row((some(3, 4), some(3, 4)), extremes=[(POSITIONS, POSITIONS)]),
    "linear_attention": Row(
        (QF, KF, VF),
        LINEAR,
        hand=lambda q, k, v, grad: maths.linear_attention_grad(q, k, v, grad, **LINEAR),
        extremes=[NO_FEATURES, each(lambda x: x[:, :0], QF, KF, VF), (QF * 1e4, KF, VF * 1e4)],
    ),
    "linear_attention_grad": Row(
        (QF, KF, VF, some(2, 5, 4)), LINEAR, extremes=[(*NO_FEATURES, VF[:1])]
    ),
    "linear_attention_in_chunks": Row(
        (QF, KF, VF),
        {"eps": 1e-6, "chunk": 2},
        extremes=[NO_FEATURES, each(lambda x: x[:, :0], QF, KF, VF)],
    ),
    "linear_attention_step": Row(
        (some(2, 3, 4), positive(2, 3), QF[:, 0], KF[:, 0], VF[:, 0]),
        {"eps": 1e-6},
        extremes=[(np.zeros((3, 4)), np.zeros(3), np.zeros(3), np.zeros(3), VF[0, 0])],
    ),
}

# --- norms

X, GRAD, GAIN, SHIFT = some(2, 3, 4), some(2, 3, 4), some(4), some(4)
MEAN, VAR = some(4), positive(4)
EPS = {"eps": 1e-5}
GROUPS = {"n_groups": 2, **EPS}
#: Constant, huge, tiny, and no sequence at all.
FEATURES = (np.ones((2, 3, 4)), X * 1e4, X * 1e-8)
NO_SEQUENCE = X[:0]
ROWS_OF_V, LENGTHS = some(3, 4), some(3)
LEFT, RIGHT = some(2, 3), some(2, 4)
MATRIX = some(2, 3, 4)


def _affine_extremes(*more: np.ndarray, empty: bool = True) -> list[Arrays]:
    inputs = (*FEATURES, NO_SEQUENCE) if empty else FEATURES
    return [(x, GAIN, *more) for x in inputs]


def _norm(name: str, options: dict[str, Any], *, empty: bool = True) -> dict[str, Row]:
    """The rows of a norm with gain and bias, and of its gradient."""
    gradient = getattr(maths, f"{name}_grad")
    of_empty = [(NO_SEQUENCE, GAIN, NO_SEQUENCE)] if empty else []
    return {
        name: Row(
            (X, GAIN, SHIFT),
            options,
            hand=lambda x, gain, bias, grad: gradient(x, gain, grad, **options),
            extremes=_affine_extremes(SHIFT, empty=empty),
        ),
        f"{name}_grad": Row(
            (X, GAIN, GRAD), options, extremes=[*((x, GAIN, GRAD) for x in FEATURES), *of_empty]
        ),
    }


NORM_ROWS: dict[str, Row] = {
    **_norm("layer_norm", EPS),
    **_norm("group_norm", GROUPS),
    **_norm("instance_norm", EPS),
    **_norm("batch_norm", EPS, empty=False),
    "rms_norm": Row(
        (X, GAIN),
        EPS,
        hand=lambda x, gain, grad: maths.rms_norm_grad(x, gain, grad, **EPS),
        extremes=_affine_extremes(),
    ),
    "rms_norm_grad": Row((X, GAIN, GRAD), EPS, extremes=[(x, GAIN, GRAD) for x in FEATURES]),
    "batch_norm_inference": Row(
        (X, GAIN, SHIFT, MEAN, VAR),
        EPS,
        hand=lambda x, gain, bias, mean, var, grad: maths.batch_norm_inference_grad(
            x, gain, mean, var, grad, **EPS
        ),
        extremes=_affine_extremes(SHIFT, MEAN, VAR * 0),
    ),
    "batch_norm_inference_grad": Row(
        (X, GAIN, MEAN, VAR, GRAD), EPS, extremes=[(x, GAIN, MEAN, VAR * 0, GRAD) for x in FEATURES]
    ),
    "batch_norm_update": Row(
        (MEAN, VAR, X), {"momentum": 0.1}, extremes=[(MEAN, VAR, x) for x in FEATURES]
    ),
    "weight_norm": Row(
        (ROWS_OF_V, LENGTHS),
        hand=maths.weight_norm_grad,
        extremes=[
            (ROWS_OF_V * 1e4, LENGTHS * 0),
            (ROWS_OF_V * 1e-4, LENGTHS),
            (X[:0], X[:0, :, 0]),
        ],
    ),
    "weight_norm_grad": Row(
        (ROWS_OF_V, LENGTHS, some(3, 4)), extremes=[(ROWS_OF_V * 1e4, LENGTHS * 0, some(3, 4))]
    ),
    "power_iteration": Row(
        (MATRIX, LEFT), {"steps": 2}, extremes=[(MATRIX * 1e4, LEFT), (MATRIX * 1e-4, LEFT * 1e4)]
    ),
    "spectral_norm": Row(
        (MATRIX, LEFT, RIGHT),
        hand=maths.spectral_norm_grad,
        extremes=[(MATRIX * 1e4, LEFT, RIGHT), (MATRIX[:0], LEFT[:0], RIGHT[:0])],
    ),
    "spectral_norm_grad": Row(
        (MATRIX, LEFT, RIGHT, some(2, 3, 4)), extremes=[(MATRIX * 1e4, LEFT, RIGHT, MATRIX)]
    ),
}

# --- memory

DECAY, ADDED, START = positive(2, 5, 3), some(2, 5, 3), some(2, 3)
MEMORY, KEY, VALUE = some(2, 3, 4), some(2, 4), some(2, 3)
TEXT = (MEMORY, some(2, 3, 4), some(2, 5, 4), some(2, 5, 3), *(positive(2, 5) for _ in range(3)))
TOKEN = (MEMORY, some(2, 3, 4), KEY, VALUE, *(positive(2) for _ in range(3)))
GATES = ("persistence", "learning_rate", "forgetting")
SHUT = (*(0 * x for x in TEXT[:2]), *TEXT[2:4], *(np.ones((2, 5)) for _ in range(3)))
SHUT_TOKEN = (*TOKEN[:4], *(np.ones(2) for _ in range(3)))

MEMORY_ROWS: dict[str, Row] = {
    "linear_scan": Row(
        (DECAY, ADDED, START),
        hand=maths.linear_scan_grad,
        extremes=[(DECAY * 0, ADDED * 1e4, START), (DECAY[:, :1], ADDED[:, :1], START)],
    ),
    "linear_scan_grad": Row(
        (DECAY, ADDED, START, some(2, 5, 3)), extremes=[(DECAY * 0, ADDED * 1e4, START, ADDED)]
    ),
    "memory_loss": Row(
        (MEMORY, KEY, VALUE),
        hand=lambda m, k, v, grad: maths.memory_loss_grad(m, k, v) * grad[..., None, None],
        extremes=[(MEMORY * 0, KEY * 0, VALUE), (MEMORY[:0], KEY[:0], VALUE[:0])],
    ),
    "memory_loss_grad": Row((MEMORY, KEY, VALUE), extremes=[(MEMORY * 0, KEY * 1e4, VALUE)]),
    "memory_step": Row(TOKEN, named=GATES, extremes=[SHUT_TOKEN]),
    "memory_through_time": Row(TEXT, named=GATES, extremes=[SHUT]),
    "memory_in_chunks": Row(
        TEXT,
        {"chunk": 2},
        named=GATES,
        extremes=[SHUT],
        extreme_options={"chunk": 100},
    ),
}

#: Functions of plain numbers: arguments by name, and the value worked out by hand.
NUMBERS: dict[str, tuple[dict[str, float], float | tuple[float, ...]]] = {
    "yarn_attention_factor": ({"factor": 4.0, "weight": 0.5}, 1.0693147180559945),
    "deep_norm_one_stack": ({"n_layers": 8}, (2.0, 2**-1.5)),
    "deep_norm_encoder": ({"n_encoder_layers": 16, "n_decoder_layers": 1}, (1.62, 0.435)),
    "deep_norm_decoder": ({"n_decoder_layers": 27}, (3.0, 324**-0.25)),
}
