"""The book of the subject: equations read from `maths`, concepts with their links, and a quiz.

Comes in: a term or an everyday question, or a question's number. Goes out: entries, concepts and
questions, with examples that are computed at that moment.

Must not know: formulas of its own: it reads all from `maths`.
"""

from pellucid.old_words import take_old_words as _take_old_words
from pellucid.textbook.concept import LINKS, Concept, concepts, concepts_of
from pellucid.textbook.entries import Entry, entry, topics
from pellucid.textbook.examples import Computed, compute
from pellucid.textbook.lookup import Misnomer, look_up
from pellucid.textbook.pages import links, record
from pellucid.textbook.questions import QUESTIONS, Question

__all__ = [
    "LINKS",
    "QUESTIONS",
    "Computed",
    "Concept",
    "Entry",
    "Misnomer",
    "Question",
    "compute",
    "concepts",
    "concepts_of",
    "entry",
    "links",
    "look_up",
    "record",
    "topics",
]

_take_old_words(__name__, globals())
