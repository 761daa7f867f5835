"""Whether llama.cpp computes a model's mixtures of experts."""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.exports.gguf.architecture import Architecture, Mixture
from pellucid.exports.gguf.layers import mixture_of, n_leading_dense

#: What llama.cpp's gpt-oss computes in every expert.
_LIMIT, _SLOPE = 7.0, 1.702


def check_mixtures(architecture: Architecture, stack: config.Stack) -> None:
    """Refuse experts, or dense layers, where the architecture has the other.

    Args:
        architecture: of llama.cpp.
        stack: its dense layers are alike.

    Raises:
        CheckpointError: names the part that llama.cpp lacks.
    """
    kind, mixture = mixture_of(stack), architecture.mixture
    if kind is None:
        if mixture is not None and not mixture.optional:
            raise architecture.lacks("a model without experts")
        return
    if mixture is None:
        raise architecture.lacks("experts")
    n_dense = n_leading_dense(stack)
    if any(layer.feed_forward != kind for layer in stack.layers[n_dense:]):
        raise architecture.lacks("layers behind the first experts that differ from them")
    if n_dense and not mixture.dense_first:
        raise architecture.lacks("dense layers in front of those with experts")
    _check_expert(architecture, kind)
    _check_router(architecture, mixture, kind.router)
    _check_shared(architecture, mixture, kind)


def _check_expert(architecture: Architecture, kind: config.Experts) -> None:
    if kind.weights_on != "output":
        raise architecture.lacks('feed_forward.weights_on = "input"')
    match kind.expert:
        case config.ClampedGatedMLP(limit=limit, slope=slope):
            if "clamped" not in architecture.activations or (limit, slope) != (_LIMIT, _SLOPE):
                raise architecture.lacks(
                    f"experts of the kind ClampedGatedMLP with limit {limit:g} and slope {slope:g}",
                )
        case config.GatedMLP(activation=activation):
            if activation not in architecture.activations.get("gated", ()):
                raise architecture.lacks(f"experts with the activation {activation}")
        case expert:
            raise architecture.lacks(f"experts of the kind {type(expert).__name__}")


def _check_router(architecture: Architecture, mixture: Mixture, router: config.Router) -> None:
    if router.scores not in mixture.scores:
        raise architecture.lacks(f'router.scores = "{router.scores}"')
    if mixture.normalised not in (None, router.normalised):
        raise architecture.lacks(f"router.normalised = {str(router.normalised).lower()}")
    if router.scale != 1 and not mixture.scaled:
        raise architecture.lacks(f"router.scale = {router.scale:g}")
    if router.balancing_rate is not None and mixture.choice_bias == "no":
        raise architecture.lacks("a bias of the router's choice (router.balancing_rate)")
    groups = router.groups
    if groups is None or groups.n_active == groups.n_groups:
        return  # all groups are in use: they change nothing
    if not mixture.groups or groups.score != "two_largest":
        raise architecture.lacks(f'router.groups with score = "{groups.score}"')


def _check_shared(architecture: Architecture, mixture: Mixture, kind: config.Experts) -> None:
    shared, expert = kind.shared, kind.expert
    if mixture.shared not in ("may", "no" if shared is None else "must"):
        presence = "without" if shared is None else "with"
        raise architecture.lacks(f"experts {presence} a shared layer")
    if shared is None:
        return
    if kind.shared_gate != mixture.shared_gate:
        raise architecture.lacks(f"feed_forward.shared_gate = {str(kind.shared_gate).lower()}")
    if replace(shared, d_ff=expert.d_ff) != expert:
        raise architecture.lacks("a shared layer of another kind than the experts")
    if mixture.shared_by_count and shared.d_ff % expert.d_ff:
        raise architecture.lacks(
            f"a shared layer of {shared.d_ff} units that is no multiple of an expert's "
            f"{expert.d_ff}",
        )
