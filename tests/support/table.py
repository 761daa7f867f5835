"""The table of laws: a row, or a value worked out by hand, for every public function of `maths`.

Comes in: nothing. Goes out: what `tests/maths/test_laws.py` and `test_jax.py` hold equations to.
"""

from __future__ import annotations

import numpy as np

from support import equations, layers, losses, whole_layers
from support.equations import Row
from support.losses import MASKED

RANDOM = np.random.default_rng(7)
LOGITS = RANDOM.normal(size=(3, 4))
SEEN = np.array([[True, False, True, True], [False] * 4, [True] * 4])
MATRICES = (np.zeros((3, 2)), np.ones((2, 3)) * 1e4, np.eye(3) * 1e-4, np.zeros((0, 3, 2)))
ADAM = {"step": 3, "learning_rate": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8}
W, G, M, V = RANDOM.normal(size=(4, 5))


ROWS: dict[str, Row] = {
    "adamw_step": Row(
        (W, G, M, V**2),
        {**ADAM, "weight_decay": 0.1},
        extremes=[(W, G * 1e4, M, V**2), (W, G * 0, M * 0, V * 0), (W[:0],) * 4],
    ),
    "newton_schulz": Row(
        (RANDOM.normal(size=(2, 4, 3)),), {"steps": 5}, extremes=[(x,) for x in MATRICES]
    ),
    "keep_top_k": Row((LOGITS,), {"k": 2}, smooth=False, extremes=[(x,) for x in MASKED]),
    "keep_top_p": Row((LOGITS,), {"p": 0.7}, smooth=False, extremes=[(x,) for x in MASKED]),
    "keep_min_p": Row((LOGITS,), {"p": 0.3}, smooth=False, extremes=[(x,) for x in MASKED]),
    "repetition_penalty": Row(
        (LOGITS, SEEN),
        {"penalty": 1.3},
        hand=lambda x, seen, grad: (
            grad * np.where(seen, np.where(x > 0, 1 / 1.3, 1.3), 1.0)  # the line it lies on
        ),
        extremes=[(x, x >= 0) for x in MASKED],
    ),
    **equations.POSITION_ROWS,
    **equations.ATTENTION_ROWS,
    **equations.NORM_ROWS,
    **equations.MEMORY_ROWS,
    **losses.ROWS,
    **layers.ROWS,
    **whole_layers.LAYER_ROWS,
}

#: Functions of plain numbers: arguments by name, and the value worked out by hand.
NUMBERS: dict[str, tuple[dict[str, float], float | tuple[float, ...]]] = {
    **equations.NUMBERS,
    **losses.NUMBERS,
    **layers.NUMBERS,
    **whole_layers.NUMBERS,
    "he_std": ({"n_in": 8}, 0.5),
    "xavier_std": ({"n_in": 3, "n_out": 5}, 0.5),
    "depth_scale": ({"n_layers": 8}, 0.25),
    "constant": ({"step": 3, "warm_up": 4}, 0.75),
    "linear": ({"step": 6, "warm_up": 4, "total": 8, "final": 0.5}, 0.75),
    "cosine": ({"step": 5, "warm_up": 4, "total": 7, "final": 0.2}, 0.8),
    "warm_up_stable_decay": (
        {"step": 9, "warm_up": 4, "decay": 2, "total": 10, "final": 0.5},
        0.75,
    ),
}
