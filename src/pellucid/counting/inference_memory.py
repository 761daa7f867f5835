"""The memory for using a model: loading it, reading texts, generating, tracing a sentence."""

from __future__ import annotations

from typing import assert_never

from pellucid.config import (
    MLP,
    ClampedGatedMLP,
    ClassificationHead,
    Experts,
    GatedMLP,
    NoHead,
    OneFeedForward,
    Rotary,
    Stack,
    Transformer,
    rotated_width,
)
from pellucid.counting.activations import Pass
from pellucid.counting.growth import growth
from pellucid.counting.memory import SMALLER_MODEL, MemoryRow
from pellucid.counting.parameters import parameter_count
from pellucid.counting.peak import MemoryEstimate, least_model
from pellucid.counting.temporaries import reading_bytes

#: The process already has its memory: only the additions count.
_PROCESS = MemoryRow("process", 0, "as it is")
#: Bytes per angle of positions while computing its cosine and sine.
_ANGLE_BYTES = 40
#: Bytes per logit of a row: as float32, widened, log P, cumulative sum and sorted.
_LOGIT_BYTES = 40
#: Bytes per generated token in Python: its id and log P as numbers, each in a tuple.
_WRITTEN_BYTES = 80
#: Layers of a sentence that are in memory at a time: see `explain.tracing`.
_OPEN_LAYERS = 8
#: Bytes per token of a beam: ids and log P in two tuples, and twice as many candidates.
_BEGINNING_BYTES = 48


def weights_memory(model: Transformer, bytes_per_weight: int = 4) -> MemoryEstimate:
    """A model as it is built: its weights, and the tables of its positions' angles."""
    n = parameter_count(least_model(model))
    rotated = sum(_rotated(stack) for stack in model.stacks)
    tables = _ANGLE_BYTES * model.context_length * rotated
    rows = (
        MemoryRow(
            "weights", bytes_per_weight * n, f"{bytes_per_weight} bytes x parameters", SMALLER_MODEL
        ),
        MemoryRow("positions", tables, "40 bytes x T x d_k", "model.context_length"),
    )
    return MemoryEstimate((_PROCESS, *rows))


def _rotated(stack: Stack) -> int:
    """Features with a table of angles, over all schemes of a stack."""
    widths = {
        layer.positions: rotated_width(layer.attention)
        for layer in stack.layer_counts
        if isinstance(layer.positions, Rotary)
    }
    return sum(widths.values())


def reading_memory(
    model: Transformer, *, sequences: int, length: int, logits: bool, lower: str
) -> MemoryEstimate:
    """Reading several texts at once.

    Args:
        model: The model.
        sequences: How many texts.
        length: Their tokens.
        logits: Whether logits are computed.
        lower: The setting that lowers the memory.
    """
    size = Pass(sequences, length, length)
    n_bytes, formula = reading_bytes(model, size, "float32", logits=logits)
    return MemoryEstimate((_PROCESS, MemoryRow("states", n_bytes, formula, lower)))


def writing_memory(
    model: Transformer, *, texts: int, beams: int, prompt: int, new_tokens: int
) -> MemoryEstimate:
    """Generating text. The cache of a layer is as long as the context; beam search has it twice.

    Args:
        model: The model.
        texts: How many prompts.
        beams: Beams of each prompt.
        prompt: Tokens of a prompt.
        new_tokens: Tokens to generate.
    """
    n, context = texts * beams, model.context_length
    kinds = growth(model, precision="float32")
    cache_bytes = sum(kind.cache_bytes_per_token * context + kind.state_bytes for kind in kinds)
    twice = 1 + 1 / min(stack.n_layers for stack in model.stacks) if beams > 1 else 1.0
    per_token = _BEGINNING_BYTES if beams > 1 else _WRITTEN_BYTES
    read = Pass(texts, min(prompt, context), min(prompt, context))
    states, states_formula = reading_bytes(model, read, "float32", logits=False)
    fewer = "--beams or the number of prompts" if beams > 1 else "the number of prompts"
    rows = [
        MemoryRow("caches", int(n * cache_bytes * twice), "texts x beams x context x kept", fewer),
        MemoryRow("logits", _LOGIT_BYTES * n * model.rows, "40 bytes x rows x vocab_size", fewer),
        MemoryRow("tokens", per_token * n * new_tokens, "rows x new tokens", "--max-new-tokens"),
        MemoryRow("states", states, states_formula, "the prompts' length"),
    ]
    return MemoryEstimate((_PROCESS, *rows))


def looking_memory(model: Transformer, *, length: int) -> MemoryEstimate:
    """Tracing a sentence: the open layers, the scores of one of them, the logits."""
    width, heads = 0, 1
    for stack in model.stacks:
        kinds = stack.layer_counts
        inner = max(_recorded_units(layer.feed_forward) for layer in kinds)
        per_layer = 24 * model.d_model + 4 * inner
        width += min(stack.n_layers, _OPEN_LAYERS) * per_layer + stack.n_layers * model.d_model
        heads = max(heads, *(layer.attention.n_heads for layer in kinds))
    lower = "the length of the sentence"
    vocabulary = 0 if isinstance(model.head, ClassificationHead | NoHead) else model.rows
    rows = (
        MemoryRow("states", 4 * length * width, "4 bytes x tokens x opened layers", lower),
        MemoryRow("scores", 24 * heads * length**2, "6 x 4 bytes x h T^2", lower),
        MemoryRow("logits", 12 * length * vocabulary, "3 x 4 bytes x T vocab_size", lower),
    )
    return MemoryEstimate((_PROCESS, *rows))


def _recorded_units(feed_forward: OneFeedForward) -> int:
    """Units of a token that a trace keeps."""
    match feed_forward:
        case MLP(d_ff=d_ff) | GatedMLP(d_ff=d_ff) | ClampedGatedMLP(d_ff=d_ff):
            return d_ff
        case Experts(expert=expert, shared=shared, n_active=n_active):
            return n_active * expert.d_ff + (0 if shared is None else shared.d_ff)
        case _:
            assert_never(feed_forward)
