"""One form for all spellings of a term: case, hyphens, plurals, Greek letters, question words."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from pellucid.textbook.concept import read_pairs, read_words

_DASHES = re.compile("[−–—]")
#: Signs and Greek letters, and how a reader calls them.
_SIGNS = {sign: f" {word} " for sign, word in read_pairs("signs").items()}
#: Words of a question that say nothing of its subject.
_QUESTION = frozenset(read_words("question"))
#: Words that say only that the subject is ours.
_FRAME = frozenset(read_words("frame"))
#: Words whose singular or stem no rule finds.
_IRREGULAR = read_pairs("irregular")
#: Of two that fit, the first; a longer one is before a shorter one that it ends in.
_ENDINGS = tuple(read_words("endings"))


def plain(words: str) -> str:
    """The words in lower case, in letters, digits and blanks alone."""
    text = _DASHES.sub("-", words.lower())
    for sign, word in _SIGNS.items():
        text = text.replace(sign, word)
    text = unicodedata.normalize("NFKD", text)
    text = "".join(letter for letter in text if not unicodedata.combining(letter))
    text = re.sub(r"['\u2019]s\b", "", text)
    text = re.sub(r"n['\u2019]t\b", " not", text)
    text = re.sub(r"\b([pqy1]|yhat) ?- ?([pqy]|target)\b", r"\1 minus \2", text)
    text = re.sub(r"\b([a-z])_\{?([a-z]{1,5})\}?\b", r"\1\2", text)
    text = re.sub(r"\bd (k|model|ff|head|v)\b", r"d\1", text)
    text = re.sub(r"\bsquare root of\b|\broot of\b", "sqrt", text)
    text = re.sub(r"\b(?:versus|vs\.?|compared (?:to|with)|against)(?=\W)", " vs ", text)
    return " ".join(_british(word) for word in re.findall(r"[a-z0-9]+", text))


def key(words: str) -> str:
    """The plain words as one string, singular: equal for spellings of one term."""
    return "".join(map(_singular, plain(words).split()))


def bare(words: str) -> str:
    """The plain words without those that only ask."""
    return " ".join(word for word in plain(words).split() if word not in _QUESTION)


def stems(words: str, *, framed: bool) -> frozenset[str]:
    """The stems of the words that say something.

    Args:
        words: A name or a question.
        framed: Whether words such as "model" and "learning" stay, which only say that the subject
            is ours. They stay anyhow if nothing else does.
    """
    content = [word for word in bare(words).split() if word != "vs"]
    subject = content if framed else [word for word in content if word not in _FRAME]
    return frozenset(map(stem, subject or content))


@cache
def stem(word: str) -> str:
    """A word without its ending: "saturated", "saturates" and "saturation" are one."""
    word = _IRREGULAR.get(word, word)
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            if ending == "s" and word.endswith(("ss", "us", "is")):
                break
            word = word[: -len(ending)]
            break
    word = word.rstrip("e") if len(word) > 4 else word
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] else word


@cache
def _singular(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("ies") and len(word) > 5:
        return word[:-3] + "y"
    if word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us", "is", "as")):
        return word[:-1]
    return word


@cache
def _british(word: str) -> str:
    """One spelling of words with two."""
    word = re.sub(r"i[sz](e|es|ed|er|ers|ing|ation|ations)$", r"is\1", word)
    word = re.sub(r"i[sz]ation", "isation", word)
    word = re.sub(r"^(behavi|col|neighb|fav|lab)our", r"\1or", word)
    word = re.sub(r"^(cent|fib)re", r"\1er", word)
    word = re.sub(r"^parametri[sz]", "parameteris", word.replace("parametriz", "parameteriz"))
    return re.sub(r"(mode|labe|cance|signa)ll(ing|ed|er)", r"\1l\2", word)
