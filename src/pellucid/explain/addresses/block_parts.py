"""The names of the parts of a block, and how a part is found by its name."""

from __future__ import annotations

from typing import Any

from torch import nn

SUBLAYERS = ("attention", "cross_attention", "feed_forward")
NORMS = tuple(f"{name}_norm{place}" for name in SUBLAYERS for place in ("", ".before", ".after"))
PROJECTIONS = (
    "attention.query",
    "attention.key",
    "attention.value",
    "attention.output_gate",
    "attention.query_latent",
    "attention.latent",
    "attention.rotated_key",
    "attention.memory_query",
    "attention.memory_key",
    "attention.memory_value",
    "cross_attention.query",
)
#: Projections of the encoder's states.
SOURCE_PROJECTIONS = ("cross_attention.key", "cross_attention.value")
#: Gates of each head in a layer with a memory: their logits, (1, heads, time).
GATES = tuple(
    f"attention.{name}" for name in ("mixing", "learning_rate", "persistence", "forgetting")
)
#: Norms of the latents of latent attention.
LATENT_NORMS = ("attention.query_latent_norm", "attention.latent_norm")
#: Parts that are recorded: the output under the part's name, the input under NAME.in.
PARTS = (
    *NORMS,
    *SUBLAYERS,
    *PROJECTIONS,
    *SOURCE_PROJECTIONS,
    *GATES,
    *LATENT_NORMS,
    "feed_forward.up",
    "feed_forward.gate",
    "feed_forward.down",
)
#: Parts of an output head whose numbers are recorded, by their names in the model.
HEAD_PARTS = ("head_transform.dense", "pooler", "classifier_transform.dense")


def find_part(block: nn.Module, name: str) -> nn.Module | None:
    """A part of a block by its name, such as feed_forward.up; None if the block has none."""
    part: Any = block
    for step in name.split("."):
        part = getattr(part, step, None)
    return part if isinstance(part, nn.Module) else None
