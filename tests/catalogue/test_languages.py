"""The catalogue: every text in every language, with the places and plural forms of the English."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from pellucid.catalogue import LANGUAGES, __main__, faults, languages, texts
from pellucid.catalogue.languages import SOURCE, digest_of
from pellucid.web.assets import files
from support.source import FILES

TRANSLATIONS = [language for language in LANGUAGES if language != SOURCE]
ENGLISH = {"a": "the {word} is {p:.3f}", "b": {"one": "{n} layer", "other": "{n} layers"}}


def pair(text: Any, english: Any) -> list[Any]:
    return [digest_of(english), text]


GOOD = {
    "a": pair("{p:.3f} es {word}", ENGLISH["a"]),
    "b": pair({"one": "una capa", "many": "{n} de capas", "other": "{n} capas"}, ENGLISH["b"]),
}


@pytest.fixture
def spanish(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Faults and texts of a Spanish file that a test writes; with its own two texts in English."""

    def read(entries: Mapping[str, Any]) -> tuple[dict[str, str], Mapping[str, Any]]:
        files = {SOURCE: ENGLISH, "es": entries}
        monkeypatch.setattr(languages, "_entries", files.__getitem__)
        monkeypatch.setattr(languages, "texts", languages.texts.__wrapped__)
        monkeypatch.setattr(languages, "faults", languages.faults.__wrapped__)
        return {f.key: f.kind for f in languages.faults("es")}, languages.texts("es")

    return read


@pytest.mark.parametrize("language", TRANSLATIONS)
def test_a_release_has_every_text_in_every_language(language: str) -> None:
    assert [f"{fault.key}: {fault.kind}; {fault.help}" for fault in faults(language)] == []
    assert texts(language).keys() == texts(SOURCE).keys()


def test_a_good_translation_is_shown(spanish: Any) -> None:
    faults, messages = spanish(GOOD)
    assert faults == {}
    assert messages["a"] == "{p:.3f} es {word}"
    assert messages["b"]["many"] == "{n} de capas"


@pytest.mark.parametrize(
    ("entries", "kinds"),
    [
        ({"b": GOOD["b"]}, {"a": "missing"}),
        ({**GOOD, "a": ["0" * 8, "{p:.3f} es {word}"]}, {"a": "changed"}),
        ({**GOOD, "a": "{p:.3f} es {word}"}, {"a": "changed"}),
        ({**GOOD, "a": pair("es {word}", ENGLISH["a"])}, {"a": "places"}),
        ({**GOOD, "a": pair("{p} es {word}", ENGLISH["a"])}, {"a": "places"}),
        ({**GOOD, "a": pair("{p:.3f} es {word} {x}", ENGLISH["a"])}, {"a": "places"}),
        ({**GOOD, "b": pair("{n} capas", ENGLISH["b"])}, {"b": "forms"}),
        ({**GOOD, "b": pair({"one": "", "other": ""}, ENGLISH["b"])}, {"b": "forms"}),
        ({**GOOD, "a": pair(7, ENGLISH["a"])}, {"a": "forms"}),
        ({**GOOD, "c": pair("x", "x")}, {"c": "unknown"}),
    ],
)
def test_a_text_with_a_fault_is_listed_and_shown_in_english(
    spanish: Any, entries: Mapping[str, Any], kinds: Mapping[str, str]
) -> None:
    faults, messages = spanish(entries)
    assert faults == kinds
    assert messages.keys() == ENGLISH.keys()
    for key in kinds.keys() & ENGLISH.keys():
        assert messages[key] == ENGLISH[key]


def test_the_check_lists_faults_and_fails(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert __main__.main([]) == 0
    fault = languages.Fault(language="ko", key="skip", kind="changed", help="translate it")
    monkeypatch.setattr(__main__, "faults", lambda language: (fault,) if language == "ko" else ())
    assert __main__.main([]) == __main__.main(["ko"]) == 4
    assert "ko skip: changed; translate it" in capsys.readouterr().out
    assert __main__.main(["es"]) == 0
    assert __main__.main(["tlh"]) == 2


def test_every_text_is_used_and_every_key_is_there() -> None:
    rooms = ("web/", "explain/")
    code = "".join(
        file.read_text("utf-8") for name, file in FILES.items() if name.startswith(rooms)
    )
    code += "".join(file.content.decode() for file in files().values() if "javascript" in file.kind)
    # a key that is put together of parts: f"update.moves-{trend}", or `learn.field-${field}`
    built_keys = re.findall(r'f"([\w.-]*)\{[^"]*\}([\w-]*)"', code)
    built_keys += re.findall(r"`([\w.-]*)\$\{[^`]*\}([\w-]*)`", code)
    patterns = [
        re.compile(rf"{re.escape(a)}[\w-]+{re.escape(b)}") for a, b in built_keys if "." in a
    ]
    dotted = [key for key in texts(SOURCE) if "." in key]
    unused = [
        k for k in dotted if f'"{k}"' not in code and not any(p.fullmatch(k) for p in patterns)
    ]
    assert unused == []
    used_keys = set(re.findall(r'message\(\s*"([^"]+)"', code))
    assert used_keys - texts(SOURCE).keys() == set()
