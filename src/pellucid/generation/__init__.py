"""A model and a prompt in, text out. Knows nothing of training."""

from pellucid.generation.beam_search import Found, beam_search, beam_search_ids
from pellucid.generation.beams import Beams, EarlyStopping, Hypothesis, Search
from pellucid.generation.finite import finite, not_refused
from pellucid.generation.generate import (
    Chosen,
    Continuation,
    continue_ids,
    continue_tokens,
    generate,
    generate_after,
    stream,
)
from pellucid.generation.incremental import Reader, seen_past_context, window_start
from pellucid.generation.prompts import Start, encode, pad, start
from pellucid.generation.sampling import Sampling, choose

__all__ = [
    "Beams",
    "Chosen",
    "Continuation",
    "EarlyStopping",
    "Found",
    "Hypothesis",
    "Reader",
    "Sampling",
    "Search",
    "Start",
    "beam_search",
    "beam_search_ids",
    "choose",
    "continue_ids",
    "continue_tokens",
    "encode",
    "finite",
    "generate",
    "generate_after",
    "not_refused",
    "pad",
    "seen_past_context",
    "start",
    "stream",
    "window_start",
]
