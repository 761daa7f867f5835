"""The equations, each with its hand-derived gradient, on any array library.

Comes in: arrays (NumPy, PyTorch, JAX, CuPy, anything of the Python array API standard) and numbers.
Goes out: arrays. It knows neither torch.nn nor config, and draws nothing at random.
"""

from pellucid.maths.cross_entropy import cross_entropy, cross_entropy_grad
from pellucid.maths.initialisation import depth_scale, he_std, xavier_std
from pellucid.maths.optimisers import adamw_step, newton_schulz
from pellucid.maths.positions import rotary_angles, sinusoid
from pellucid.maths.sampling import keep_min_p, keep_top_k, keep_top_p, repetition_penalty
from pellucid.maths.schedules import constant, cosine, linear, warm_up_stable_decay
from pellucid.maths.softmax import log_softmax, logsumexp, softmax, softmax_grad

__all__ = [
    "adamw_step",
    "constant",
    "cosine",
    "cross_entropy",
    "cross_entropy_grad",
    "depth_scale",
    "he_std",
    "keep_min_p",
    "keep_top_k",
    "keep_top_p",
    "linear",
    "log_softmax",
    "logsumexp",
    "newton_schulz",
    "repetition_penalty",
    "rotary_angles",
    "sinusoid",
    "softmax",
    "softmax_grad",
    "warm_up_stable_decay",
    "xavier_std",
]
