"""A run and a sentence in; every number of its way through the model out. Knows no screen.

`trace` gives numbers by address, and `trace(...).backward()` their gradients; `trace(...).why()`
takes apart why the model says a word. `read_sentence` gives the prediction at every position, and
what each token cost; `name_heads` names the heads of a run by what they do; `film` keeps what a
sentence looks like inside while a model is trained.
"""

from pellucid.explain.api import trace
from pellucid.explain.films.recorder import film
from pellucid.explain.sentence import Sentence
from pellucid.explain.token_predictions import Reading, TokenReading, read_sentence
from pellucid.explain.trace_types import Gradients, Trace
from pellucid.explain.why import Attribution
from pellucid.explain.why.behaviours import name_heads
from pellucid.old_words import take_old_words as _take_old_words

__all__ = [
    "Attribution",
    "Gradients",
    "Reading",
    "Sentence",
    "TokenReading",
    "Trace",
    "film",
    "name_heads",
    "read_sentence",
    "trace",
]

_take_old_words(__name__, globals())
