"""Find the page that a name means: of an equation, a concept, a topic, or of no such thing."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from pellucid import maths
from pellucid.errors import PellucidError
from pellucid.textbook.concept import Concept
from pellucid.textbook.entries import Entry, entry, topics
from pellucid.textbook.normalise import key
from pellucid.textbook.search import SLIP, exact_concept, find_concept, similar_names


@dataclass(frozen=True, slots=True)
class Misnomer:
    """A common name of something that does not exist, and the equations it may mean.

    Attributes:
        name: the common name.
        explanation: why it does not exist.
        suggestions: equations that may be meant.
        other_names: spellings of it.
    """

    name: str
    explanation: str
    suggestions: tuple[str, ...]
    other_names: tuple[str, ...] = ()


_NO_SUCH_THING = (
    Misnomer(
        "batch layer normalisation",
        "There is no such thing. Batch norm takes each feature's mean over the tokens of a batch; "
        "layer norm takes each token's mean over its features, and a batch has no part in it. On "
        "(batch, time, d_model) transformers use layer norm, batch x time norms of d_model numbers "
        "each, and that is most likely the one you mean.",
        ("layer_norm", "batch_norm"),
        ("batch layer norm",),
    ),
    Misnomer(
        "KL distance",
        "There is no such thing. KL is a divergence: KL(p || q) is not KL(q || p), and no triangle "
        "inequality holds. The square root of Jensen-Shannon's divergence is a distance.",
        ("kl_divergence", "jensen_shannon"),
    ),
    Misnomer(
        "softmax loss",
        "There is no such thing. Softmax makes shares of scores; the loss is the cross-entropy of "
        "those shares, and the two together have the gradient p - y.",
        ("cross_entropy", "softmax"),
    ),
)
_MISNOMERS = {
    key(name): misnomer
    for misnomer in _NO_SUCH_THING
    for name in (misnomer.name, *misnomer.other_names)
}


def look_up(words: str) -> Entry | Concept | tuple[str, ...] | Misnomer:
    """The meaning of `words`: an equation, a concept, the names in a topic, or a misnomer.

    A concept with an equation of its own gives that equation's entry, which holds the concept.

    Raises:
        PellucidError: nothing has this name; the message lists names that differ by a slip.
    """
    name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    if misnomer := _MISNOMERS.get(key(words)):
        return misnomer
    if name in maths.__all__:
        return entry(name)
    by_topic = {key(topic): names for topic, names in topics().items()}
    if key(words) in by_topic and not exact_concept(words):
        return by_topic[key(words)]
    if concept := find_concept(words):
        return entry(concept.equation, concept) if concept.equation else concept
    similar = {
        key(similar_name): similar_name
        for similar_name in (
            *difflib.get_close_matches(name, maths.__all__, n=3, cutoff=SLIP),
            *similar_names(words),
        )
    }
    hint = (
        f"did you mean {' or '.join(similar.values())}?"
        if similar
        else "see all with: pellucid equations"
    )
    raise PellucidError(f"there is no equation called {words!r}, and no page about it; {hint}")
