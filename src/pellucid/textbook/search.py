"""Find the concept that words mean: by name, by the same words in any order, or by most of them.

A question that is mostly about other things than any concept has no answer: every word that the
textbook does not know counts against a match.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache

from pellucid.textbook.concept import Concept, concepts, read_words
from pellucid.textbook.normalise import bare, key, plain, stems

#: The least score of a match. Measured: tests/textbook/test_search.py.
THRESHOLD = 0.74
#: What a word of the question counts that is in a concept's other names or text, not in the name.
IN_THE_PAGE = 0.4
#: How close a slip has to be to a name to be suggested.
SLIP = 0.9
#: Letters of the shortest slip: shorter words are close to many names.
SHORTEST_SLIP = 6
#: Names of ours that mean something else in other fields: alone they prove nothing in a question.
_EVERYDAY = frozenset(map(key, read_words("everyday")))
_SHORTEST_PROOF = 3
_SIDES = re.compile(r"\s+(?:vs\.?|versus|or|and|against|compared (?:to|with))\s+", re.IGNORECASE)
_SIDE_OF_PLACE = re.compile(r"\s+(?:in|for|as|during|with)\s+", re.IGNORECASE)
_SIDE_OF_OWNER = re.compile(r"\s+of\s+", re.IGNORECASE)
_COMPARING_WORDS = re.compile(
    r"\b(?:what(?: is|'s)? )?(?:the )?difference between\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Index:
    """The names of all concepts in the forms that are compared."""

    by_key: dict[str, str]
    own_keys: frozenset[str]
    by_stems: dict[frozenset[str], str]
    names: tuple[tuple[str, frozenset[str]], ...]
    pages: dict[str, frozenset[str]]
    weights: dict[str, float]
    unknown: float


def find_concept(words: str) -> Concept | None:
    """The concept that the words mean, or None."""
    steps = (_by_key, _of_compared, _by_stems, _of_joined, _ranked, _containing)
    name = next(filter(None, (step(words) for step in steps)), None)
    return concepts()[name] if name else None


def exact_concept(words: str) -> Concept | None:
    """The concept that has the words for a name, in any spelling or order, or None."""
    name = _exact(words)
    return concepts()[name] if name else None


def similar_names(words: str) -> tuple[str, ...]:
    """Names that differ from the words by a slip or two."""
    if len(key(words)) < SHORTEST_SLIP:
        return ()
    slips = difflib.get_close_matches(key(words), _index().by_key, n=3, cutoff=SLIP)
    return tuple(dict.fromkeys(concepts()[_index().by_key[slip]].id for slip in slips))


def _exact(words: str) -> str | None:
    return _by_key(words) or _by_stems(words)


def _by_key(words: str) -> str | None:
    by_key = _index().by_key
    return by_key.get(key(words)) or by_key.get(key(bare(words)) or " ")


def _by_stems(words: str) -> str | None:
    """The concept with a name of the same stems, first with all words, then without a frame."""
    by_stems = _index().by_stems
    return by_stems.get(stems(words, framed=True)) or by_stems.get(stems(words, framed=False))


def _of_compared(words: str) -> str | None:
    """The first of terms that are compared, "adam vs sgd", if each is one."""
    return _side(words, _SIDES, 0)


def _of_joined(words: str) -> str | None:
    """One of two terms: the first of "dropout in attention", the last of "slope of tanh"."""
    return _side(words, _SIDE_OF_PLACE, 0) or _side(words, _SIDE_OF_OWNER, -1)


def _side(words: str, pattern: re.Pattern[str], place: int) -> str | None:
    sides = [_exact(side) for side in pattern.split(_COMPARING_WORDS.sub("", words))]
    return sides[place] if len(sides) > 1 and all(sides) else None


def _ranked(words: str) -> str | None:
    """The concept with the best score, if that reaches the threshold.

    The score of a name is the harmonic mean of two shares, in weights: how much of the question
    the name and its page cover, and how much of the name is in the question.
    """
    index, question = _index(), stems(words, framed=False)
    if len(question) < 2:
        return None

    def weigh(words: frozenset[str]) -> float:
        return sum(index.weights.get(word, index.unknown) for word in words)

    total, best, winner = weigh(question), 0.0, None
    for concept, name in index.names:
        common = question & name
        if not common:
            continue
        elsewhere = (question - name) & index.pages[concept]
        covered = (weigh(common) + IN_THE_PAGE * weigh(elsewhere)) / total
        name_share = weigh(common) / weigh(name)
        score = 2 * covered * name_share / (covered + name_share)
        if score > best:
            best, winner = score, concept
    return winner if best >= THRESHOLD else None


def _containing(words: str) -> str | None:
    """The concept with the longest name inside the question, if that name is one of ours alone."""
    content = bare(words).split()
    for length in range(len(content), 0, -1):
        for start in range(len(content) - length + 1):
            inner = content[start : start + length]
            name = key(" ".join(inner))
            if name not in _index().own_keys:
                continue
            proves = len(inner) > 1 or (
                len(name) >= _SHORTEST_PROOF and name not in _EVERYDAY and not name.isdigit()
            )
            if proves:
                return _index().by_key[name]
    return None


@cache
def _index() -> _Index:
    by_key: dict[str, str] = {}
    by_stems: dict[frozenset[str], str] = {}
    names: list[tuple[str, frozenset[str]]] = []
    pages: dict[str, frozenset[str]] = {}
    records = concepts().values()
    # ids and titles first: an alias never takes another concept's own name
    pairs = [(name, concept.id) for concept in records for name in (concept.id, concept.title)]
    pairs += [(name, concept.id) for concept in records for name in concept.aliases]
    for name, concept_id in pairs:
        by_key.setdefault(key(name), concept_id)
        full, subject = stems(name, framed=True), stems(name, framed=False)
        # a name that is one word among words that only ask is too little to go by
        if len(full) > 1 or (full and " " not in plain(name)):
            names.append((concept_id, full))
            by_stems.setdefault(full, concept_id)
        if len(subject) > 1:
            by_stems.setdefault(subject, concept_id)
    for concept in concepts().values():
        text = " ".join((*concept.names, concept.text))
        pages[concept.id] = stems(text, framed=True)
    own_keys = frozenset(by_key)
    for concept in concepts().values():
        for name in (*concept.signs, *concept.causes, *concept.keys):
            by_key.setdefault(key(name), concept.id)
    frequency = Counter(word for page in pages.values() for word in page)
    n = len(pages)
    weights = {word: math.log((n + 1) / count) for word, count in frequency.items()}
    return _Index(by_key, own_keys, by_stems, tuple(names), pages, weights, math.log(n + 1))
