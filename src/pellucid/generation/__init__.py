"""A model and a prompt in, text out. Knows nothing of training."""

from pellucid.generation.generate import (
    Continuation,
    continue_ids,
    generate,
    seen_past_context,
    stream,
    window_start,
)
from pellucid.generation.sampling import Sampling, choose

__all__ = [
    "Continuation",
    "Sampling",
    "choose",
    "continue_ids",
    "generate",
    "seen_past_context",
    "stream",
    "window_start",
]
