"""Claims about depth: gradients, the residual stream, and the place of the norm."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.course.experiments.picture import Curve, Curves, curve
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
from pellucid.course.experiments.small_models import (
    BYTES,
    bundled_text,
    loss_of,
    small_model,
    text_batches,
)
from pellucid.maths.initialisation import he_std, xavier_std
from pellucid.model import LayerNorm, Transformer, assemble, no_residual, pre_norm
from pellucid.typed import gradients, length

_LAYERS, _WIDTH = 30, 64
_STDS = {
    "0.02": 0.02,
    "0.02/root 2L": 0.02 / math.sqrt(2 * _LAYERS),
    "Xavier": xavier_std(_WIDTH, _WIDTH),
    "He": he_std(_WIDTH),
}


def _thirty_layers(setting: Setting) -> Reading:
    x = torch.randn(64, _WIDTH)
    powers: dict[str, float] = {}
    curves: list[Curve] = []
    for (std_name, std), residual, normed in product(_STDS.items(), (False, True), (False, True)):
        name = f"{std_name}, {'residual' if residual else 'no residual'}"
        name += ", norm" if normed else ", no norm"
        sizes = _gradient_sizes(x, std, residual=residual, normed=normed)
        powers[name] = math.log10(max(sizes[0], 1e-300) / sizes[-1])
        if std_name in ("0.02", "He") and residual == normed:
            curves.append(curve(name, range(_LAYERS + 1), sizes))
    return Reading(
        numbers={f"powers of ten lost or gained, {name}": value for name, value in powers.items()},
        picture=Curves(
            title="The gradient's size at each of 30 layers, before training",
            x_label="layer",
            y_label="size of the gradient",
            curves=tuple(curves),
            log_y=True,
        ),
    )


def _gradient_sizes(x: Tensor, std: float, *, residual: bool, normed: bool) -> list[float]:
    """The gradient's norm at the input and after each layer of ReLU and a matrix."""
    rule = pre_norm if residual else no_residual
    norm: nn.Module = LayerNorm(_WIDTH, eps=1e-5, bias=True) if normed else nn.Identity()
    states = [x.clone().requires_grad_()]
    for _ in range(_LAYERS):
        weight = torch.randn(_WIDTH, _WIDTH) * std

        def layer(x: Tensor, weight: Tensor = weight) -> Tensor:
            return torch.relu(x) @ weight

        states.append(rule(states[-1], norm, layer))
    pull = torch.randn_like(x)
    grads = gradients((states[-1] * pull).sum(), states, None)
    return [0.0 if grad is None else length(grad) for grad in grads]


def _stream_variance(setting: Setting) -> Reading:
    n_layers = 24
    training, _ = bundled_text()
    batch = text_batches(training, rows=8, length=64, seed=setting.seed)(0)
    variances: dict[str, list[float]] = {}
    for outputs in ("plain", "depth_scaled"):
        start = config.Initialisation(weights=config.Xavier(), embedding_std=1.0, outputs=outputs)
        model = assemble(
            small_model(
                vocab_size=BYTES, context_length=64, n_layers=n_layers, initialisation=start
            ),
            seed=setting.seed,
        )
        variances[outputs] = _read_stream(model, batch.ids)
    plain, scaled = variances["plain"], variances["depth_scaled"]
    half = n_layers // 2
    return Reading(
        numbers={
            "variance after 24 layers, plain": plain[-1],
            "variance after 24 layers, scaled": scaled[-1],
            "added by layers 13 to 24 over added by 1 to 12, plain": (plain[-1] - plain[half - 1])
            / (plain[half - 1] - 1),
        },
        picture=Curves(
            title="The variance of the residual stream before training; the embedding has 1",
            x_label="layer",
            y_label="variance",
            curves=tuple(
                curve(name, range(1, n_layers + 1), values) for name, values in variances.items()
            ),
        ),
    )


def _read_stream(model: Transformer, ids: Tensor) -> list[float]:
    """The variance of the stream after each block."""
    variances: list[float] = []

    def record(block: nn.Module, inputs: Any, state: Tensor) -> None:
        variances.append(float(state.var()))

    for block in model.stack.blocks:
        block.register_forward_hook(record)
    with torch.no_grad():
        model(ids)
    return variances


def _first_loss(setting: Setting) -> Reading:
    training, _ = bundled_text()
    batch = text_batches(training, rows=16, length=64, seed=setting.seed)(0)
    stds = (0.02, 0.1, 0.3, 1.0, 3.0)
    losses = [
        loss_of(
            assemble(
                small_model(
                    vocab_size=BYTES,
                    context_length=64,
                    tied=True,
                    initialisation=_outputs_of(std),
                ),
                seed=setting.seed,
            ),
            batch,
        )
        for std in stds
    ]
    even = math.log(BYTES)
    return Reading(
        numbers={
            "first loss minus log V, deviation 0.02 (nats)": losses[0] - even,
            "first loss minus log V, deviation 1 (nats)": losses[3] - even,
        },
        picture=Curves(
            title="The loss before the first update; log 256 is 5.55 nats",
            x_label="deviation of the head's first weights",
            y_label="nats per byte",
            curves=(curve("loss", stds, losses), curve("log V", stds, [even] * len(stds))),
            log_x=True,
            log_y=True,
        ),
    )


def _outputs_of(std: float) -> config.Initialisation:
    """Embedding and head with this deviation; the blocks start as usual."""
    return config.Initialisation(
        weights=config.Normal(std=0.05), embedding_std=std, outputs="depth_scaled"
    )


EXPERIMENTS = (
    Experiment(
        name="thirty-layers",
        title="Thirty layers: which gradients reach the first of them",
        description="Measure the gradient at each of 30 layers, for four first weights, with and "
        "without residuals and norms.",
        question=Question(
            text="30 layers without residual and norm start with deviation 0.02. The gradient",
            choices=("loses more than 20 powers of ten", "loses about 2", "stays"),
        ),
        claim="Without residuals the gradient of 30 layers vanishes, unless the first weights fit "
        "(He); with residual and norm it arrives whole from any of the usual first weights.",
        source=Source(
            authors="He et al.",
            year=2016,
            title="Identity Mappings in Deep Residual Networks",
            place="section 2",
        ),
        concepts=("residual_jacobian", "chained_jacobian", "he_std", "xavier_std", "depth_scale"),
        checks=(
            upper_bound("powers of ten lost or gained, 0.02, no residual, no norm", -20),
            upper_bound("powers of ten lost or gained, Xavier, no residual, no norm", -3),
            in_range("powers of ten lost or gained, He, no residual, no norm", -1, 1),
            in_range("powers of ten lost or gained, 0.02, residual, norm", -1, 1),
            in_range("powers of ten lost or gained, 0.02/root 2L, residual, norm", -1, 1),
            in_range("powers of ten lost or gained, Xavier, residual, norm", -1, 1),
            in_range("powers of ten lost or gained, He, residual, norm", -1, 1),
        ),
        measure=_thirty_layers,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="residual-stream-variance",
        title="The residual stream grows with depth",
        description="Read the variance of the stream after each of 24 layers before training.",
        question=Question(
            text="Each block adds its output to the stream. Over 24 layers its variance",
            choices=("grows about linearly", "stays the same", "grows exponentially"),
        ),
        claim="The variance of the stream grows linearly with depth; weights divided by the root "
        "of twice the depth keep it near its start.",
        source=Source(
            authors="Radford et al.",
            year=2019,
            title="Language Models are Unsupervised Multitask Learners",
            place="section 2.3",
        ),
        concepts=("stream_variance", "block_variance", "model.initialisation.outputs"),
        checks=(
            lower_bound("variance after 24 layers, plain", 2),
            in_range("added by layers 13 to 24 over added by 1 to 12, plain", 0.5, 2),
            upper_bound("variance after 24 layers, scaled", 1.5),
        ),
        measure=_stream_variance,
        seeds=5,
        quick_seeds=3,
    ),
    Experiment(
        name="first-loss",
        title="The first loss tells the deviation of the first outputs",
        description="Measure the loss of untrained models whose heads start small or large.",
        question=Question(
            text="An untrained model of 256 bytes starts with small logits. Its loss is about",
            choices=("log 256 = 5.5 nats", "0 nats", "256 nats"),
        ),
        claim="With small first outputs a model starts at log V; with a deviation of 1 it starts "
        "far above, confident and wrong.",
        source=Source(
            authors="Karpathy",
            year=2019,
            title="A Recipe for Training Neural Networks",
            place="section 2",
        ),
        concepts=("cross_entropy", "gpt2_std", "model.initialisation.embedding_std"),
        checks=(
            in_range("first loss minus log V, deviation 0.02 (nats)", -0.1, 0.1),
            lower_bound("first loss minus log V, deviation 1 (nats)", 3),
        ),
        measure=_first_loss,
        seeds=5,
        quick_seeds=3,
    ),
)
