"""The equations, each with its hand-derived gradient, on any array library.

Equations take and return arrays: NumPy, PyTorch, JAX, CuPy, or any library that follows the Python
array API standard.

The names here check their arguments first (`pellucid.maths.door`). The modules hold the bare
formulas: `from pellucid.maths.softmax import softmax` checks nothing.

Must not know: torch.nn, config, chance.
"""

# fmt: off
# isort: off
from pellucid.maths.activations import (
    gelu, gelu_grad, gelu_tanh, gelu_tanh_grad, quick_gelu, quick_gelu_grad, relu, relu_grad,
    relu_squared, relu_squared_grad, silu, silu_grad, tanh, tanh_grad,
)
from pellucid.maths.attention.attention import (
    attention, attention_grad, attention_weights, soft_cap, soft_cap_grad,
)
from pellucid.maths.attention.attention_vitals import (
    attention_entropy, attention_entropy_grad, attention_logsumexp, largest_score_bounds,
)
from pellucid.maths.experts.balancing import (
    balancing_step, load_balancing_loss, load_balancing_loss_grad, router_z_loss,
    router_z_loss_grad,
)
from pellucid.maths.batch_norm import (
    batch_norm, batch_norm_grad, batch_norm_inference, batch_norm_inference_grad,
    batch_norm_update,
)
from pellucid.maths.binary_cross_entropy import (
    binary_cross_entropy, binary_cross_entropy_from_logits, binary_cross_entropy_from_logits_grad,
    binary_cross_entropy_grad, brier_score, brier_score_grad,
)
from pellucid.maths.classification import (
    accuracy, calibration_bins, confusion_matrix, expected_calibration_error, f1_score,
    precision_score, recall_score,
)
from pellucid.maths.cross_entropy import (
    cross_entropy, cross_entropy_from_probabilities, cross_entropy_from_probabilities_grad,
    cross_entropy_grad, focal_loss, focal_loss_grad, soft_cross_entropy, soft_cross_entropy_grad,
)
from pellucid.maths.distillation import (
    forward_kl, forward_kl_grad, jensen_shannon_of_logits, jensen_shannon_of_logits_grad, kl_k1,
    kl_k2, kl_k2_grad, kl_k3, kl_k3_grad, reverse_kl, reverse_kl_grad,
)
from pellucid.maths.divergences import (
    cross_entropy_between, cross_entropy_between_grad, entropy, entropy_grad, entropy_of_logits,
    entropy_of_logits_grad, jensen_shannon, jensen_shannon_grad, kl_divergence,
    kl_divergence_grad, relative_entropy, relative_entropy_grad,
)
from pellucid.maths.door.equation import open_door as _open_door
from pellucid.maths.error_function import erf, erf_grad
from pellucid.maths.experts.routing import (
    choose_experts, mixture_of_experts, mixture_of_experts_grad, sigmoid_router,
    sigmoid_router_grad, softmax_router, softmax_router_grad,
)
from pellucid.maths.gated_activations import (
    clamped_swiglu, clamped_swiglu_grad, geglu, geglu_grad, swiglu, swiglu_grad,
)
from pellucid.maths.gaussian_kl import (
    gaussian_kl, gaussian_kl_diagonal, gaussian_kl_diagonal_grad, gaussian_kl_full,
    gaussian_kl_full_grad, gaussian_kl_grad,
)
from pellucid.maths.initialisation import (
    block_variance, chained_variance, deep_norm_decoder, deep_norm_encoder, deep_norm_one_stack,
    depth_scale, gpt2_std, he_std, lecun_std, linear_variance, relu_mean_square, stream_variance,
    torch_linear_std, xavier_std,
)
from pellucid.maths.likelihood import (
    bits_per_byte, language_model_loss, language_model_loss_grad, perplexity,
    sequence_log_likelihood, sequence_log_likelihood_grad,
)
from pellucid.maths.attention.linear_attention import (
    elu_features, elu_features_grad, linear_attention, linear_attention_grad,
    linear_attention_in_chunks, linear_attention_step,
)
from pellucid.maths.attention.latent_attention import latent_attention, latent_attention_grad
from pellucid.maths.output_head import (
    embedding, embedding_grad, linear_head_grads, linear_head_loss, tied_loss, tied_loss_grad,
)
from pellucid.maths.logistic import (
    glu, glu_grad, sigmoid, sigmoid_grad, softplus, softplus_grad,
)
from pellucid.maths.neural_memory import (
    memory_in_chunks, memory_loss, memory_loss_grad, memory_step, memory_through_time,
)
from pellucid.maths.norms import (
    group_norm, group_norm_grad, instance_norm, instance_norm_grad, layer_norm, layer_norm_grad,
    rms_norm, rms_norm_grad,
)
from pellucid.maths.optimisers import (
    adam_step, adamw_step, bias_corrected, momentum_step, newton_schulz, sgd_step,
)
from pellucid.maths.penalties import (
    elastic_net_penalty, elastic_net_penalty_grad, elastic_net_prox, l1_penalty, l1_penalty_grad,
    l1_prox, l2_penalty, l2_penalty_grad, l2_prox,
)
from pellucid.maths.policy_gradient import (
    clipped_policy_loss, clipped_policy_loss_grad, grpo_advantages, policy_gradient_loss,
    policy_gradient_loss_grad, rloo_advantages, trust_region_step,
)
from pellucid.maths.positions.sinusoids import sinusoid
from pellucid.maths.dpo import (
    best_of_n_kl, bradley_terry_loss, bradley_terry_loss_grad, dpo_loss, dpo_loss_grad,
    dpo_margin, hinge_preference_loss, hinge_preference_loss_grad, regularised_reward,
    regularised_reward_grad, regularised_reward_optimum,
)
from pellucid.maths.positions.disentangled import (
    disentangled_bias, disentangled_bias_grad, log_distance_rows,
)
from pellucid.maths.positions.relative_positions import (
    alibi_bias, alibi_slopes, clipped_distance_index, distance_buckets, relative_distances,
    relative_scores, relative_scores_grad,
)
from pellucid.maths.residuals import chained_jacobian, residual_jacobian
from pellucid.maths.positions.rotary import (
    angles_at, rotary_angles, rotary_frequencies, rotate, rotate_grad, to_half_split,
    to_interleaved,
)
from pellucid.maths.positions.rotary_scaling import (
    dynamic_ntk_frequencies, interpolated_frequencies, llama3_frequencies, ntk_frequencies,
    yarn_attention_factor, yarn_frequencies,
)
from pellucid.maths.sampling import (
    argmax_share, keep_min_p, keep_top_k, keep_top_p, repetition_penalty,
    speculative_acceptance,
)
from pellucid.maths.saturation import (
    normalised_entropy, normalised_entropy_grad, renyi2_entropy, renyi2_entropy_grad,
    softmax_slope,
)
from pellucid.maths.scans import linear_scan, linear_scan_grad
from pellucid.maths.schedules import constant, cosine, linear, warm_up_stable_decay
from pellucid.maths.attention.self_attention import (
    multi_head_attention, multi_head_attention_grad, simple_attention, simple_attention_grad,
)
from pellucid.maths.softmax import (
    log_softmax, log_softmax_grad, logsumexp, softmax, softmax_grad, softmax_jacobian,
    softmax_jacobian_product, sum_normalise, sum_normalise_grad,
)
from pellucid.maths.weight_norms import (
    lipschitz_bound, power_iteration, spectral_norm, spectral_norm_grad, weight_norm,
    weight_norm_grad,
)
from pellucid.maths.layers.block import block, block_grad
from pellucid.maths.clipping import clip_by_norm, clip_by_norm_grad, gradient_noise_scale
from pellucid.maths.attention.masks import causal_mask
from pellucid.maths.counting.model_size import (
    attention_flops, gpt2_parameters, kv_cache_size, scaling_law_loss, training_flops,
)
from pellucid.maths.layers.feed_forward import (
    dropout, dropout_grad, feed_forward, feed_forward_grad,
)
from pellucid.maths.layers.lora import lora, lora_grad
from pellucid.maths.layers.quantization import quantize
from pellucid.maths.counting.tokens import kronecker_delta, pair_counts, word_piece_score
from pellucid.old_words import take_old_words as _take_old_words
# isort: on

__all__ = [
    "accuracy", "adam_step", "adamw_step", "alibi_bias", "alibi_slopes", "angles_at",
    "argmax_share", "attention", "attention_entropy", "attention_entropy_grad",
    "attention_flops", "attention_grad", "attention_logsumexp", "attention_weights",
    "balancing_step", "batch_norm", "batch_norm_grad", "batch_norm_inference",
    "batch_norm_inference_grad", "batch_norm_update", "best_of_n_kl", "bias_corrected",
    "binary_cross_entropy", "binary_cross_entropy_from_logits",
    "binary_cross_entropy_from_logits_grad", "binary_cross_entropy_grad", "bits_per_byte",
    "block", "block_grad", "block_variance", "bradley_terry_loss", "bradley_terry_loss_grad",
    "brier_score", "brier_score_grad", "calibration_bins", "causal_mask", "chained_jacobian",
    "chained_variance", "choose_experts", "clamped_swiglu", "clamped_swiglu_grad",
    "clip_by_norm", "clip_by_norm_grad", "clipped_distance_index", "clipped_policy_loss",
    "clipped_policy_loss_grad", "confusion_matrix", "constant", "cosine", "cross_entropy",
    "cross_entropy_between", "cross_entropy_between_grad", "cross_entropy_from_probabilities",
    "cross_entropy_from_probabilities_grad", "cross_entropy_grad", "deep_norm_decoder",
    "deep_norm_encoder", "deep_norm_one_stack", "depth_scale", "disentangled_bias",
    "disentangled_bias_grad", "distance_buckets", "dpo_loss", "dpo_loss_grad", "dpo_margin",
    "dropout", "dropout_grad", "dynamic_ntk_frequencies", "elastic_net_penalty",
    "elastic_net_penalty_grad", "elastic_net_prox", "elu_features", "elu_features_grad",
    "embedding", "embedding_grad", "entropy", "entropy_grad", "entropy_of_logits",
    "entropy_of_logits_grad", "erf", "erf_grad", "expected_calibration_error", "f1_score",
    "feed_forward", "feed_forward_grad", "focal_loss", "focal_loss_grad", "forward_kl",
    "forward_kl_grad", "gaussian_kl", "gaussian_kl_diagonal", "gaussian_kl_diagonal_grad",
    "gaussian_kl_full", "gaussian_kl_full_grad", "gaussian_kl_grad", "geglu", "geglu_grad",
    "gelu", "gelu_grad", "gelu_tanh", "gelu_tanh_grad", "glu", "glu_grad", "gpt2_parameters",
    "gpt2_std", "gradient_noise_scale", "group_norm", "group_norm_grad", "grpo_advantages",
    "he_std", "hinge_preference_loss", "hinge_preference_loss_grad", "instance_norm",
    "instance_norm_grad", "interpolated_frequencies", "jensen_shannon", "jensen_shannon_grad",
    "jensen_shannon_of_logits", "jensen_shannon_of_logits_grad", "keep_min_p", "keep_top_k",
    "keep_top_p", "kl_divergence", "kl_divergence_grad", "kl_k1", "kl_k2", "kl_k2_grad",
    "kl_k3", "kl_k3_grad", "kronecker_delta", "kv_cache_size", "l1_penalty", "l1_penalty_grad",
    "l1_prox", "l2_penalty", "l2_penalty_grad", "l2_prox", "language_model_loss",
    "language_model_loss_grad", "largest_score_bounds", "latent_attention",
    "latent_attention_grad", "layer_norm", "layer_norm_grad", "lecun_std", "linear",
    "linear_attention", "linear_attention_grad", "linear_attention_in_chunks",
    "linear_attention_step", "linear_head_grads", "linear_head_loss", "linear_scan",
    "linear_scan_grad", "linear_variance", "lipschitz_bound", "llama3_frequencies",
    "load_balancing_loss", "load_balancing_loss_grad", "log_distance_rows", "log_softmax",
    "log_softmax_grad", "logsumexp", "lora", "lora_grad", "memory_in_chunks", "memory_loss",
    "memory_loss_grad", "memory_step", "memory_through_time", "mixture_of_experts",
    "mixture_of_experts_grad", "momentum_step", "multi_head_attention",
    "multi_head_attention_grad", "newton_schulz", "normalised_entropy",
    "normalised_entropy_grad", "ntk_frequencies", "pair_counts", "perplexity",
    "policy_gradient_loss", "policy_gradient_loss_grad", "power_iteration", "precision_score",
    "quantize", "quick_gelu", "quick_gelu_grad", "recall_score", "regularised_reward",
    "regularised_reward_grad", "regularised_reward_optimum", "relative_distances",
    "relative_entropy", "relative_entropy_grad", "relative_scores", "relative_scores_grad",
    "relu", "relu_grad", "relu_mean_square", "relu_squared", "relu_squared_grad",
    "renyi2_entropy", "renyi2_entropy_grad", "repetition_penalty", "residual_jacobian",
    "reverse_kl", "reverse_kl_grad", "rloo_advantages", "rms_norm", "rms_norm_grad",
    "rotary_angles", "rotary_frequencies", "rotate", "rotate_grad", "router_z_loss",
    "router_z_loss_grad", "scaling_law_loss", "sequence_log_likelihood",
    "sequence_log_likelihood_grad", "sgd_step", "sigmoid", "sigmoid_grad", "sigmoid_router",
    "sigmoid_router_grad", "silu", "silu_grad", "simple_attention", "simple_attention_grad",
    "sinusoid", "soft_cap", "soft_cap_grad", "soft_cross_entropy", "soft_cross_entropy_grad",
    "softmax", "softmax_grad", "softmax_jacobian", "softmax_jacobian_product", "softmax_router",
    "softmax_router_grad", "softmax_slope", "softplus", "softplus_grad", "spectral_norm",
    "spectral_norm_grad", "speculative_acceptance", "stream_variance", "sum_normalise",
    "sum_normalise_grad", "swiglu", "swiglu_grad", "tanh", "tanh_grad", "tied_loss",
    "tied_loss_grad", "to_half_split", "to_interleaved", "torch_linear_std", "training_flops",
    "trust_region_step", "warm_up_stable_decay", "weight_norm", "weight_norm_grad",
    "word_piece_score", "xavier_std", "yarn_attention_factor", "yarn_frequencies",
]
# fmt: on

_doors = _open_door(globals(), __all__)

_take_old_words(__name__, globals())
