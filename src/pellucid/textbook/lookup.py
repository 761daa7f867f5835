"""Find the equation that a name means: other names of it, and names of no equation."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from pellucid import maths
from pellucid.errors import PellucidError
from pellucid.textbook.entries import Entry, entry, topics


@dataclass(frozen=True, slots=True)
class Misnomer:
    """A common name of something that does not exist, and the equations it may mean."""

    name: str
    explanation: str
    suggestions: tuple[str, ...]


_ALIASES: dict[str, str] = {
    "adam": "adam_step",
    "adamw": "adamw_step",
    "alibi": "alibi_bias",
    "bce": "binary_cross_entropy",
    "binary_cross_entropy_with_logits": "binary_cross_entropy_from_logits",
    "bpb": "bits_per_byte",
    "conditional_log_likelihood": "sequence_log_likelihood",
    "cross_attention": "multi_head_attention",
    "dot_product_attention": "attention",
    "dpo": "dpo_loss",
    "elastic_net": "elastic_net_penalty",
    "glorot": "xavier_std",
    "he": "he_std",
    "jensen_shannon_divergence": "jensen_shannon",
    "js": "jensen_shannon",
    "kaiming": "he_std",
    "kl": "kl_divergence",
    "kullback_leibler": "kl_divergence",
    "kullback_leibler_divergence": "kl_divergence",
    "l1": "l1_penalty",
    "l2": "l2_penalty",
    "lasso": "l1_penalty",
    "lecun": "lecun_std",
    "log_sum_exp": "logsumexp",
    "logistic": "sigmoid",
    "min_p": "keep_min_p",
    "mla": "latent_attention",
    "momentum": "momentum_step",
    "multi_head": "multi_head_attention",
    "muon": "newton_schulz",
    "negative_log_likelihood": "cross_entropy",
    "nll": "cross_entropy",
    "nucleus_sampling": "keep_top_p",
    "ppl": "perplexity",
    "ppo": "clipped_policy_loss",
    "reinforce": "policy_gradient_loss",
    "renyi_entropy": "renyi2_entropy",
    "ridge": "l2_penalty",
    "root_mean_square_layer_norm": "rms_norm",
    "rope": "rotate",
    "rotary": "rotate",
    "scaled_dot_product_attention": "attention",
    "self_attention": "attention",
    "sgd": "sgd_step",
    "sinusoidal": "sinusoid",
    "smooth_relu": "softplus",
    "soft_threshold": "l1_prox",
    "swish": "silu",
    "top_k": "keep_top_k",
    "top_p": "keep_top_p",
    "weight_decay": "adamw_step",
    "xavier": "xavier_std",
    "yarn": "yarn_frequencies",
}

_MISNOMERS: dict[str, Misnomer] = {
    "batch_layer_norm": Misnomer(
        "batch layer normalisation",
        "There is no such thing. Batch norm takes each feature's mean over the tokens of a batch; "
        "layer norm takes each token's mean over its features, and a batch has no part in it. On "
        "(batch, time, d_model) transformers use layer norm, batch x time norms of d_model numbers "
        "each, and that is most likely the one you mean.",
        ("layer_norm", "batch_norm"),
    ),
    "kl_distance": Misnomer(
        "KL distance",
        "There is no such thing. KL is a divergence: KL(p || q) is not KL(q || p), and no triangle "
        "inequality holds. The square root of Jensen-Shannon's divergence is a distance.",
        ("kl_divergence", "jensen_shannon"),
    ),
    "softmax_loss": Misnomer(
        "softmax loss",
        "There is no such thing. Softmax makes shares of scores; the loss is the cross-entropy of "
        "those shares, and the two together have the gradient p - y.",
        ("cross_entropy", "softmax"),
    ),
}


def look_up(words: str) -> Entry | tuple[str, ...] | Misnomer:
    """The meaning of `words`: an equation, the names in a topic, or a misnomer.

    Raises:
        PellucidError: No equation has this name; the message lists similar names.
    """
    name = _as_name(words)
    if name in _MISNOMERS:
        return _MISNOMERS[name]
    name = _ALIASES.get(name, name)
    if name in maths.__all__:
        return entry(name)
    by_topic = {_as_name(topic): names for topic, names in topics().items()}
    if name in by_topic:
        return by_topic[name]
    candidates = _similar_names(name, [*maths.__all__, *_ALIASES, *by_topic])
    hint = (
        f"did you mean {', '.join(candidates)}?"
        if candidates
        else "see all with: pellucid equations"
    )
    raise PellucidError(f"there is no equation called {words!r}; {hint}")


def _as_name(words: str) -> str:
    """Lower case, words joined by _, and one spelling of norms."""
    name = re.sub(r"[^a-z0-9]+", "_", words.lower().replace("'s", "")).strip("_")
    name = re.sub(r"normali[sz]ation", "norm", name).replace("layernorm", "layer_norm")
    name = name.replace("batchnorm", "batch_norm").replace("rmsnorm", "rms_norm")
    return name.replace("crossentropy", "cross_entropy").replace("optimizer", "optimiser")


def _similar_names(name: str, names: list[str]) -> list[str]:
    containing = [candidate for candidate in names if name and name in candidate]
    close = difflib.get_close_matches(name, names, n=5, cutoff=0.6)
    return list(dict.fromkeys([*close, *containing]))[:5]
