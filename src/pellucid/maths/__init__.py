"""The equations, each with its hand-derived gradient, on any array library.

Comes in: arrays (NumPy, PyTorch, JAX, CuPy, anything of the Python array API standard) and numbers.
Goes out: arrays. It knows neither torch.nn nor config, and draws nothing at random.
"""

from pellucid.maths.attention import (
    attention,
    attention_grad,
    attention_weights,
    soft_cap,
    soft_cap_grad,
)
from pellucid.maths.batch_norm import (
    batch_norm,
    batch_norm_grad,
    batch_norm_inference,
    batch_norm_inference_grad,
    batch_norm_update,
)
from pellucid.maths.cross_entropy import cross_entropy, cross_entropy_grad
from pellucid.maths.initialisation import (
    deep_norm_decoder,
    deep_norm_encoder,
    deep_norm_one_stack,
    depth_scale,
    he_std,
    xavier_std,
)
from pellucid.maths.linear_attention import (
    elu_features,
    elu_features_grad,
    linear_attention,
    linear_attention_grad,
    linear_attention_in_chunks,
    linear_attention_step,
)
from pellucid.maths.memory import (
    memory_in_chunks,
    memory_loss,
    memory_loss_grad,
    memory_step,
    memory_through_time,
)
from pellucid.maths.norms import (
    group_norm,
    group_norm_grad,
    instance_norm,
    instance_norm_grad,
    layer_norm,
    layer_norm_grad,
    rms_norm,
    rms_norm_grad,
)
from pellucid.maths.optimisers import adamw_step, newton_schulz
from pellucid.maths.positions import sinusoid
from pellucid.maths.relative import (
    alibi_bias,
    alibi_slopes,
    clipped_distance_index,
    distance_buckets,
    relative_distances,
)
from pellucid.maths.rotary import (
    angles_at,
    rotary_angles,
    rotary_frequencies,
    rotate,
    rotate_grad,
    to_half_split,
    to_interleaved,
)
from pellucid.maths.rotary_scaling import (
    dynamic_ntk_frequencies,
    interpolated_frequencies,
    llama3_frequencies,
    ntk_frequencies,
    yarn_attention_factor,
    yarn_frequencies,
)
from pellucid.maths.sampling import keep_min_p, keep_top_k, keep_top_p, repetition_penalty
from pellucid.maths.scans import linear_scan, linear_scan_grad
from pellucid.maths.schedules import constant, cosine, linear, warm_up_stable_decay
from pellucid.maths.softmax import log_softmax, logsumexp, softmax, softmax_grad
from pellucid.maths.weight_norms import (
    power_iteration,
    spectral_norm,
    spectral_norm_grad,
    weight_norm,
    weight_norm_grad,
)

__all__ = [
    "adamw_step",
    "alibi_bias",
    "alibi_slopes",
    "angles_at",
    "attention",
    "attention_grad",
    "attention_weights",
    "batch_norm",
    "batch_norm_grad",
    "batch_norm_inference",
    "batch_norm_inference_grad",
    "batch_norm_update",
    "clipped_distance_index",
    "constant",
    "cosine",
    "cross_entropy",
    "cross_entropy_grad",
    "deep_norm_decoder",
    "deep_norm_encoder",
    "deep_norm_one_stack",
    "depth_scale",
    "distance_buckets",
    "dynamic_ntk_frequencies",
    "elu_features",
    "elu_features_grad",
    "group_norm",
    "group_norm_grad",
    "he_std",
    "instance_norm",
    "instance_norm_grad",
    "interpolated_frequencies",
    "keep_min_p",
    "keep_top_k",
    "keep_top_p",
    "layer_norm",
    "layer_norm_grad",
    "linear",
    "linear_attention",
    "linear_attention_grad",
    "linear_attention_in_chunks",
    "linear_attention_step",
    "linear_scan",
    "linear_scan_grad",
    "llama3_frequencies",
    "log_softmax",
    "logsumexp",
    "memory_in_chunks",
    "memory_loss",
    "memory_loss_grad",
    "memory_step",
    "memory_through_time",
    "newton_schulz",
    "ntk_frequencies",
    "power_iteration",
    "relative_distances",
    "repetition_penalty",
    "rms_norm",
    "rms_norm_grad",
    "rotary_angles",
    "rotary_frequencies",
    "rotate",
    "rotate_grad",
    "sinusoid",
    "soft_cap",
    "soft_cap_grad",
    "softmax",
    "softmax_grad",
    "spectral_norm",
    "spectral_norm_grad",
    "to_half_split",
    "to_interleaved",
    "warm_up_stable_decay",
    "weight_norm",
    "weight_norm_grad",
    "xavier_std",
    "yarn_attention_factor",
    "yarn_frequencies",
]
