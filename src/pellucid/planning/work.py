"""The work of a device in a pass, and the seconds that it takes.

A product of matrices takes FLOPs / (share x peak), and its operands go through memory once: both
times are added as squares, since they overlap in part. So narrow matrices are slow. Attention has a
share of its own, which falls for short texts and narrow heads. Operations without matrices go
through memory as often as their kernels read and write.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import assert_never

from pellucid.config import (
    MLP,
    SGD,
    Adam,
    AdamW,
    ClampedGatedMLP,
    Experts,
    GatedMLP,
    LanguageHead,
    LastLayers,
    Layer,
    LoRA,
    Muon,
    OneFeedForward,
    RMSNorm,
    Rotary,
    Stack,
)
from pellucid.counting import block_products, flops_per_token, parameter_count
from pellucid.counting.activations import bytes_of
from pellucid.counting.layers import NamedStack, attention_symbols, stacks
from pellucid.counting.part_formulas import block_norms
from pellucid.counting.trained import count_trained, matrix_shapes
from pellucid.planning.setting import Setting

#: The share of its bandwidth that a memory reaches in long reads and writes.
MEMORY_SHARE = 0.85
#: Bytes per second between a device and the memory of its processor, and of an update there.
OFFLOADED = 25e9
#: Tokens of a text for which attention reaches half of its share.
_HALF_LENGTH = 256
#: Attention is slower with narrow heads: its share goes with (width / 128) to this power.
_HEAD_POWER, _HEAD_WIDTH = 0.2, 128
#: A fused kernel computes the scores again: 2.5 times the FLOPs of its forward pass.
_ATTENTION_BACKWARD = 2.5
#: What a compiler leaves of the reads and writes of separate kernels.
_COMPILED = 0.8
#: What separate kernels of an RMSNorm read and write beyond one kernel, in numbers a feature: its
#: square, mean and products are float32. Of a rotation, as a multiple of its one kernel.
_IN_FLOAT32, _ROTATED_IN_FLOAT32 = 16, 4
#: Bytes a logit reads and writes in both passes: in separate kernels, and in fused ones.
_SEPARATE_LOGIT, _FUSED_LOGIT = 26, 14
#: Kernels of a block in both passes, and kernels of everything else.
_KERNELS, _KERNELS_COMPILED, _OTHER_KERNELS = 75, 40, 30


@dataclass(frozen=True, slots=True)
class Work:
    """Seconds of a pass of one device, by part; `update` is once a step.

    Attributes:
        forward: Products of blocks in the forward pass.
        backward: The same in the backward pass.
        recomputed: Everything that is computed again.
        attention: Scores and weighted sums, both passes.
        elementwise: Norms, activations, residuals: reads and writes of memory.
        head: The head and the loss.
        launches: The time to start all kernels.
        overlaps: Whether the device computes meanwhile.
        update: The optimiser's step.
    """

    forward: float
    backward: float
    recomputed: float
    attention: float
    elementwise: float
    head: float
    launches: float
    overlaps: bool
    update: float

    @property
    def part(self) -> float:
        """A pass of both directions."""
        busy = self.forward + self.backward + self.recomputed + self.attention + self.elementwise
        busy += self.head
        return max(busy, self.launches) if self.overlaps else busy + self.launches


def measure_work(setting: Setting) -> Work:
    """The work of a device, before anything is sent."""
    forward = recomputed = attention = elementwise = 0.0
    depth, learning = _backward_shares(setting)
    for named_stack in stacks(setting.run.model):
        products = _products(setting, named_stack)
        scores = _attention(setting, named_stack)
        passes = [_passes(setting, named_stack, backward=backward) for backward in (False, True)]
        forward += sum(products)
        attention += (1 + depth * _ATTENTION_BACKWARD) * scores
        elementwise += passes[0] + depth * passes[1]
        match setting.layout.recompute:
            case "none":
                pass
            case "selective":
                recomputed += passes[0]
            case "alternate":
                recomputed += passes[0] + sum(products[1::2])
            case "full":
                recomputed += passes[0] + sum(products) + scores
    kernels = _KERNELS_COMPILED if setting.compiled else _KERNELS
    n_layers = sum(stack.n_layers for stack in setting.run.model.stacks)
    return Work(
        forward=forward,
        backward=depth * (1 + learning) * forward,
        recomputed=depth * recomputed,
        attention=attention,
        elementwise=elementwise,
        head=_head(setting),
        launches=setting.kind.launch * (kernels * n_layers + _OTHER_KERNELS),
        overlaps=setting.kind.gpu,
        update=_update(setting),
    )


def _backward_shares(setting: Setting) -> tuple[float, float]:
    """The share of the blocks that the backward pass goes through, and of weights that learn.

    A product has a gradient for its input, and one for its matrix if that learns.
    """
    model, trained = setting.run.model, setting.run.trained
    match trained:
        case None:
            return 1.0, 1.0
        case LoRA():
            return 1.0, count_trained(model, trained).trained / parameter_count(model)
        case LastLayers(count=count):
            return min(1.0, count / sum(stack.n_layers for stack in model.stacks)), 1.0
        case _:
            assert_never(trained)


def _product(setting: Setting, tokens: float, inputs: int, outputs: int) -> float:
    """Seconds of one product of a matrix with the vectors of tokens."""
    kind, width = setting.kind, bytes_of(setting.precision)
    flops = 2 * tokens * inputs * outputs
    n_bytes = width * (tokens * (inputs + outputs) + inputs * outputs)
    computing = flops / (kind.products * kind.clock * kind.peak(setting.precision))
    return math.hypot(computing, n_bytes / (MEMORY_SHARE * kind.bandwidth))


def _products(setting: Setting, named_stack: NamedStack) -> list[float]:
    """Seconds of each product of all blocks, in the order in which a layer computes them."""
    tokens, tensor = setting.size.tokens(named_stack), setting.layout.tensor
    return [
        product.layers
        * _product(setting, product.share * tokens, product.inputs, product.outputs)
        / tensor
        for product in block_products(setting.run.model, named_stack)
    ]


def _attention(setting: Setting, named_stack: NamedStack) -> float:
    """Seconds of scores and weighted sums of all blocks in the forward pass."""
    kind = setting.kind
    starts = (named_stack.prefix, "cross") if named_stack.causal else (named_stack.prefix,)
    flops = sum(
        row.forward
        for row in flops_per_token(setting.run.model)
        if row.part.startswith(starts) and row.part.endswith(("sums", "distance"))
    )
    length = setting.size.length(named_stack)
    heads = [attention_symbols(layer.attention)["d_k"] for layer in named_stack.stack.layer_counts]
    narrow = min(1.0, min(heads) / _HEAD_WIDTH) ** _HEAD_POWER
    share = kind.attention * narrow * length / (length + _HALF_LENGTH)
    tokens = setting.size.tokens(named_stack) / setting.layout.tensor
    return flops * tokens / (share * kind.clock * kind.peak(setting.precision))


def _passes(setting: Setting, named_stack: NamedStack, *, backward: bool) -> float:
    """Seconds of all operations without matrices in one direction."""
    n_bytes = setting.size.tokens(named_stack) * sum(
        n * _bytes_of_layer(setting, named_stack.stack, layer, backward=backward)
        for layer, n in named_stack.stack.layer_counts.items()
    )
    fused = _COMPILED if setting.compiled else 1.0
    return fused * n_bytes / (MEMORY_SHARE * setting.kind.bandwidth)


def _bytes_of_layer(setting: Setting, stack: Stack, layer: Layer, *, backward: bool) -> float:
    """Bytes of a token that a layer reads and writes outside of products and attention.

    Norms, residual sums and dropout work on the stream, everything else on inner vectors.
    """
    d_model, tensor = setting.run.model.d_model, setting.layout.tensor
    sublayers, norms = 2 if stack.cross_attention is None else 3, block_norms(stack)
    masks = (2 if setting.compiled else 6) * sublayers if stack.dropout else 0
    sizes = attention_symbols(layer.attention)
    rotated = isinstance(layer.positions, Rotary) * 2 * (sizes["h"] + sizes["h_kv"]) * sizes["d_k"]
    units, read = _units(layer.feed_forward)
    stream = (2 * norms + 3 * sublayers + masks) * d_model
    inner = units * (read + 1) + rotated
    separate, separate_inner = 0.0, 0.0
    if not setting.compiled:
        separate = _IN_FLOAT32 * norms * d_model if isinstance(stack.norm, RMSNorm) else 0.0
        separate_inner = units * (read - 1) + _ROTATED_IN_FLOAT32 * rotated
    if backward:
        stream, inner = 2 * stream, 2 * inner
        stream += 0 if isinstance(stack.norm, RMSNorm) else 2 * norms * d_model
        inner += 5 * d_model * tensor + units if _has_biases(layer) else 0
    wide, narrow = setting.conditions.residual_bytes, bytes_of(setting.precision)
    return wide * stream + narrow * (separate + (inner + separate_inner) / tensor)


def _units(feed_forward: OneFeedForward) -> tuple[float, int]:
    """The hidden units that a token uses, and how many vectors of them an activation reads."""
    match feed_forward:
        case MLP(d_ff=d_ff):
            return d_ff, 1
        case GatedMLP(d_ff=d_ff) | ClampedGatedMLP(d_ff=d_ff):
            return d_ff, 2
        case Experts(expert=expert, n_active=n_active, shared=shared):
            units, read = _units(expert)
            return n_active * units + (0 if shared is None else _units(shared)[0]), read
        case _:
            assert_never(feed_forward)


def _has_biases(layer: Layer) -> bool:
    feed_forward = layer.feed_forward
    return (feed_forward.expert if isinstance(feed_forward, Experts) else feed_forward).bias


def _head(setting: Setting) -> float:
    """Seconds of the head's products in both passes, and of the reads and writes of the loss."""
    model, size = setting.run.model, setting.size
    if not isinstance(model.head, LanguageHead):
        return 0.0
    tokens = size.sequences * (size.decoder or size.encoder)
    products = 3 * _product(setting, tokens, model.head_width, model.rows)
    separate = setting.assumptions.logits == "whole" and not setting.compiled
    logit_bytes = _SEPARATE_LOGIT if separate else _FUSED_LOGIT
    passes = logit_bytes * tokens * model.rows / (MEMORY_SHARE * setting.kind.bandwidth)
    return (products + passes) / setting.layout.tensor


def _update(setting: Setting) -> float:
    """Seconds of the optimiser: it reads and writes weights, gradients and moments once."""
    run, layout = setting.run, setting.layout
    counts = count_trained(run.model, run.trained)
    optimiser = run.optimiser
    match optimiser:
        case AdamW() | Adam():
            n_bytes = 32 * counts.trained
        case SGD():
            n_bytes = 24 * counts.trained
        case Muon():
            n_bytes = 32 * counts.trained - 8 * counts.hidden
        case _:
            assert_never(optimiser)
    bandwidth = OFFLOADED if layout.offload else MEMORY_SHARE * setting.kind.bandwidth
    seconds = n_bytes / layout.parts / bandwidth
    if isinstance(optimiser, Muon):
        seconds += optimiser.newton_schulz_steps * _newton_schulz(setting) / layout.parts
    return seconds


def _newton_schulz(setting: Setting) -> float:
    """Seconds of one step for all hidden matrices, by owners."""
    flops = 0
    for (rows, columns), n in matrix_shapes(setting.run.model).items():
        small, large = sorted((rows, columns))
        flops += n * (4 * small * small * large + 2 * small**3)
    kind = setting.kind
    return flops / (kind.products * kind.clock * kind.peak(setting.precision))
