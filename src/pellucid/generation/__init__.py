"""A model and a prompt in, text out.

Must not know: training.
"""

from pellucid.generation.beam_search import BeamContinuation, beam_search, beam_search_ids
from pellucid.generation.beams import Beams, EarlyStopping, Hypothesis, Search
from pellucid.generation.continuous import ContinuousBatch, OpenText
from pellucid.generation.finite import finite, not_refused
from pellucid.generation.generate import (
    Continuation,
    SampledToken,
    continue_ids,
    continue_tokens,
    generate,
    generate_after,
    stream,
)
from pellucid.generation.incremental import Reader, seen_past_context, window_start
from pellucid.generation.prompts import Start, encode, pad, start
from pellucid.generation.row_text import RowText
from pellucid.generation.sampling import (
    Sampling,
    choose,
    log_p_of,
    penalise_repetition,
    row_generator,
)
from pellucid.old_names import names_of as _names_of
from pellucid.old_words import take_old_words as _take_old_words

__all__ = [
    "BeamContinuation",
    "Beams",
    "Continuation",
    "ContinuousBatch",
    "EarlyStopping",
    "Hypothesis",
    "OpenText",
    "Reader",
    "RowText",
    "SampledToken",
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
    "log_p_of",
    "not_refused",
    "pad",
    "penalise_repetition",
    "row_generator",
    "seen_past_context",
    "start",
    "stream",
    "window_start",
]

_take_old_words(__name__, globals())
__getattr__ = _names_of(__name__)
