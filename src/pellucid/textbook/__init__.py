"""The equations as a book to look things up in, and a quiz: read from `maths`, computed when asked.

Comes in: a word, or a question's number. Goes out: entries and questions, with examples that are
computed at that moment. It keeps no formula and no number of its own, and needs no torch.
"""

from pellucid.old_words import take_old_words as _take_old_words
from pellucid.textbook.entries import Entry, entry, topics
from pellucid.textbook.examples import Computed, compute
from pellucid.textbook.lookup import Misnomer, look_up
from pellucid.textbook.questions import QUESTIONS, Question

__all__ = [
    "QUESTIONS",
    "Computed",
    "Entry",
    "Misnomer",
    "Question",
    "compute",
    "entry",
    "look_up",
    "topics",
]

_take_old_words(__name__, globals())
