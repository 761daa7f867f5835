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
from pellucid.maths.binary import (
    binary_cross_entropy,
    binary_cross_entropy_from_logits,
    binary_cross_entropy_from_logits_grad,
    binary_cross_entropy_grad,
    brier_score,
    brier_score_grad,
)
from pellucid.maths.cross_entropy import (
    cross_entropy,
    cross_entropy_from_probabilities,
    cross_entropy_from_probabilities_grad,
    cross_entropy_grad,
    focal_loss,
    focal_loss_grad,
    soft_cross_entropy,
    soft_cross_entropy_grad,
)
from pellucid.maths.distillation import (
    forward_kl,
    forward_kl_grad,
    kl_k1,
    kl_k2,
    kl_k2_grad,
    kl_k3,
    kl_k3_grad,
    reverse_kl,
    reverse_kl_grad,
)
from pellucid.maths.divergences import (
    cross_entropy_between,
    cross_entropy_between_grad,
    entropy,
    entropy_grad,
    entropy_of_logits,
    entropy_of_logits_grad,
    jensen_shannon,
    jensen_shannon_grad,
    kl_divergence,
    kl_divergence_grad,
    relative_entropy,
    relative_entropy_grad,
)
from pellucid.maths.gaussian_kl import (
    gaussian_kl,
    gaussian_kl_diagonal,
    gaussian_kl_diagonal_grad,
    gaussian_kl_full,
    gaussian_kl_full_grad,
    gaussian_kl_grad,
)
from pellucid.maths.initialisation import (
    deep_norm_decoder,
    deep_norm_encoder,
    deep_norm_one_stack,
    depth_scale,
    he_std,
    xavier_std,
)
from pellucid.maths.likelihood import (
    bits_per_byte,
    language_model_loss,
    language_model_loss_grad,
    perplexity,
    sequence_log_likelihood,
    sequence_log_likelihood_grad,
)
from pellucid.maths.linear_attention import (
    elu_features,
    elu_features_grad,
    linear_attention,
    linear_attention_grad,
    linear_attention_in_chunks,
    linear_attention_step,
)
from pellucid.maths.linear_head import (
    embedding,
    embedding_grad,
    linear_head_grads,
    linear_head_loss,
    tied_loss,
    tied_loss_grad,
)
from pellucid.maths.logistic import (
    sigmoid,
    sigmoid_grad,
    softplus,
    softplus_grad,
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
from pellucid.maths.optimisers import (
    adamw_step,
    newton_schulz,
)
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
from pellucid.maths.sampling import (
    keep_min_p,
    keep_top_k,
    keep_top_p,
    repetition_penalty,
)
from pellucid.maths.saturation import (
    normalised_entropy,
    normalised_entropy_grad,
    renyi2_entropy,
    renyi2_entropy_grad,
    softmax_slope,
)
from pellucid.maths.scans import (
    linear_scan,
    linear_scan_grad,
)
from pellucid.maths.schedules import (
    constant,
    cosine,
    linear,
    warm_up_stable_decay,
)
from pellucid.maths.softmax import (
    log_softmax,
    log_softmax_grad,
    logsumexp,
    softmax,
    softmax_grad,
    softmax_jacobian,
    softmax_jacobian_product,
    sum_normalise,
    sum_normalise_grad,
)
from pellucid.maths.weight_norms import (
    power_iteration,
    spectral_norm,
    spectral_norm_grad,
    weight_norm,
    weight_norm_grad,
)

# fmt: off
__all__ = [
    "adamw_step", "alibi_bias", "alibi_slopes", "angles_at", "attention", "attention_grad",
    "attention_weights", "batch_norm", "batch_norm_grad", "batch_norm_inference",
    "batch_norm_inference_grad", "batch_norm_update", "binary_cross_entropy",
    "binary_cross_entropy_from_logits", "binary_cross_entropy_from_logits_grad",
    "binary_cross_entropy_grad", "bits_per_byte", "brier_score", "brier_score_grad",
    "clipped_distance_index", "constant", "cosine", "cross_entropy", "cross_entropy_between",
    "cross_entropy_between_grad", "cross_entropy_from_probabilities",
    "cross_entropy_from_probabilities_grad", "cross_entropy_grad", "deep_norm_decoder",
    "deep_norm_encoder", "deep_norm_one_stack", "depth_scale", "distance_buckets",
    "dynamic_ntk_frequencies", "elu_features", "elu_features_grad", "embedding",
    "embedding_grad", "entropy", "entropy_grad", "entropy_of_logits", "entropy_of_logits_grad",
    "focal_loss", "focal_loss_grad", "forward_kl", "forward_kl_grad", "gaussian_kl",
    "gaussian_kl_diagonal", "gaussian_kl_diagonal_grad", "gaussian_kl_full",
    "gaussian_kl_full_grad", "gaussian_kl_grad", "group_norm", "group_norm_grad", "he_std",
    "instance_norm", "instance_norm_grad", "interpolated_frequencies", "jensen_shannon",
    "jensen_shannon_grad", "keep_min_p", "keep_top_k", "keep_top_p", "kl_divergence",
    "kl_divergence_grad", "kl_k1", "kl_k2", "kl_k2_grad", "kl_k3", "kl_k3_grad",
    "language_model_loss", "language_model_loss_grad", "layer_norm", "layer_norm_grad",
    "linear", "linear_attention", "linear_attention_grad", "linear_attention_in_chunks",
    "linear_attention_step", "linear_head_grads", "linear_head_loss", "linear_scan",
    "linear_scan_grad", "llama3_frequencies", "log_softmax", "log_softmax_grad", "logsumexp",
    "memory_in_chunks", "memory_loss", "memory_loss_grad", "memory_step", "memory_through_time",
    "newton_schulz", "normalised_entropy", "normalised_entropy_grad", "ntk_frequencies",
    "perplexity", "power_iteration", "relative_distances", "relative_entropy",
    "relative_entropy_grad", "renyi2_entropy", "renyi2_entropy_grad", "repetition_penalty",
    "reverse_kl", "reverse_kl_grad", "rms_norm", "rms_norm_grad", "rotary_angles",
    "rotary_frequencies", "rotate", "rotate_grad", "sequence_log_likelihood",
    "sequence_log_likelihood_grad", "sigmoid", "sigmoid_grad", "sinusoid", "soft_cap",
    "soft_cap_grad", "soft_cross_entropy", "soft_cross_entropy_grad", "softmax", "softmax_grad",
    "softmax_jacobian", "softmax_jacobian_product", "softmax_slope", "softplus",
    "softplus_grad", "spectral_norm", "spectral_norm_grad", "sum_normalise",
    "sum_normalise_grad", "tied_loss", "tied_loss_grad", "to_half_split", "to_interleaved",
    "warm_up_stable_decay", "weight_norm", "weight_norm_grad", "xavier_std",
    "yarn_attention_factor", "yarn_frequencies",
]
# fmt: on
