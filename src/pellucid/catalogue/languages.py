"""The catalogue's files: one text for each key, in each language."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, cast

from pellucid.json_text import json_text
from pellucid.reader import parse_toml

#: A text, or its plural forms by the categories of Unicode's CLDR.
Text = str | Mapping[str, str]

#: The language that all texts are written in first.
SOURCE = "en"
#: The plural forms of each language. Its name is a language tag, as in HTML.
LANGUAGES: Mapping[str, tuple[str, ...]] = {
    SOURCE: ("one", "other"),
    "zh-Hans": ("other",),
    "ko": ("other",),
    "hi": ("one", "other"),
    "es": ("one", "many", "other"),
}
_PLACE = re.compile(r"\{\w+(?::[^}]*)?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a reader of a language sees an English text, or an entry of no use."""

    language: str
    key: str
    kind: Literal["missing", "changed", "unknown", "places", "forms"]
    #: What to write.
    help: str


@cache
def texts(language: str) -> Mapping[str, Text]:
    """The texts of a language by their keys; English where a translation has a fault.

    Args:
        language: One of `LANGUAGES`.

    Raises:
        PellucidError: Its file is not TOML.
    """
    if language == SOURCE:
        return _entries(SOURCE)
    bad_keys = {fault.key for fault in faults(language)}
    translated = {key: entry[1] for key, entry in _entries(language).items() if key not in bad_keys}
    return {key: translated.get(key, english) for key, english in texts(SOURCE).items()}


@cache
def faults(language: str) -> tuple[Fault, ...]:
    """The texts of a translation that are not shown, or that the English does not have.

    Args:
        language: One of `LANGUAGES`.

    Raises:
        PellucidError: Its file is not TOML.
    """
    english, entries = texts(SOURCE), _entries(language)
    faults_of_language: list[Fault] = []

    def add(key: str, kind: Any, help: str) -> None:
        faults_of_language.append(Fault(language=language, key=key, kind=kind, help=help))

    for key, entry in entries.items():
        if key not in english:
            add(key, "unknown", "remove it: English has no such text")
            continue
        digest = digest_of(english[key])
        digest_there, text = _pair(entry)
        if digest_there != digest:
            add(key, "changed", f'translate the English again, and write ["{digest}", "..."]')
        elif (wrong := _wrong_forms(english[key], text, LANGUAGES[language])) is not None:
            add(key, "forms", wrong)
        elif (wrong := _wrong_places(english[key], text)) is not None:
            add(key, "places", wrong)
    for key, text in english.items():
        if key not in entries:
            add(key, "missing", f'translate it: ["{digest_of(text)}", "..."]')
    return tuple(faults_of_language)


def digest_of(text: Text) -> str:
    """Eight hexadecimal digits of an English text."""
    return hashlib.sha256(json_text(text, sort_keys=True).encode()).hexdigest()[:8]


def _entries(language: str) -> Mapping[str, Any]:
    folder = resources.files("pellucid.catalogue") / "languages"
    file = f"{language}.toml"
    return parse_toml((folder / file).read_text("utf-8"), file)


def _pair(entry: Any) -> tuple[object, Any]:
    """The digest and the text of an entry of a translation; None and "" of anything else."""
    pair = cast("list[Any]", entry) if isinstance(entry, list) else []
    return (pair[0], pair[1]) if len(pair) == 2 else (None, "")


def _forms(text: Text) -> Mapping[str, str]:
    return {"other": text} if isinstance(text, str) else text


def _wrong_forms(english: Text, text: Any, categories: tuple[str, ...]) -> str | None:
    expected = ("other",) if isinstance(english, str) else categories
    forms = cast("Mapping[str, Any]", text if isinstance(text, Mapping) else {"other": text})
    if sorted(forms) == sorted(expected) and all(isinstance(t, str) for t in forms.values()):
        return None
    return f"it needs the plural forms {', '.join(expected)}"


def _wrong_places(english: Text, text: Text) -> str | None:
    """Every form has the places of the English, with their formats; a form may leave out {n}."""
    expected = set(_PLACE.findall(_forms(english)["other"]))
    optional: set[str] = set()
    if not isinstance(english, str):
        optional = {place for place in expected if re.match(r"\{n\b", place)}
    for form in _forms(text).values():
        places = set(_PLACE.findall(form))
        if not expected - optional <= places <= expected:
            return f"its places have to be {', '.join(sorted(expected)) or 'none'}"
    return None
