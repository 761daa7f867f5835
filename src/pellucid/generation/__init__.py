"""A model and a prompt in, text out. Knows nothing of training."""

from pellucid.generation.generate import (
    Chosen,
    Continuation,
    continue_ids,
    continue_tokens,
    generate,
    seen_past_context,
    stream,
    window_start,
)
from pellucid.generation.sampling import Sampling, choose

__all__ = [
    "Chosen",
    "Continuation",
    "Sampling",
    "choose",
    "continue_ids",
    "continue_tokens",
    "generate",
    "seen_past_context",
    "stream",
    "window_start",
]
