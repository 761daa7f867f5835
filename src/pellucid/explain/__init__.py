"""A run and a sentence in; every number of its way through the model out.

`trace` gives numbers by address, and `trace(...).backward()` their gradients. `trace(...).why()`
takes apart why the model says a word: `measure` replaces its largest parts and computes the rest
again, `find_paths` and `grow_tree` follow what its heads read. `read_sentence` gives the prediction
at every position, and what each token cost. `name_heads` names the heads of a run by what they do;
`film` keeps what a sentence looks like inside while a model is trained.

Must not know: how it is shown.
"""

from pellucid.explain.api import trace
from pellucid.explain.edits.interventions import Edit
from pellucid.explain.films.recorder import film
from pellucid.explain.sentence import Sentence
from pellucid.explain.token_predictions import Reading, TokenReading, read_sentence
from pellucid.explain.trace_types import Gradients, Trace
from pellucid.explain.why.attribution import Attribution
from pellucid.explain.why.behaviours import name_heads
from pellucid.explain.why.measure import measure
from pellucid.explain.why.paths import find_paths
from pellucid.explain.why.tree import grow_tree
from pellucid.old_words import take_old_words as _take_old_words

__all__ = [
    "Attribution",
    "Edit",
    "Gradients",
    "Reading",
    "Sentence",
    "TokenReading",
    "Trace",
    "film",
    "find_paths",
    "grow_tree",
    "measure",
    "name_heads",
    "read_sentence",
    "trace",
]

_take_old_words(__name__, globals())
