"""Terms, spellings and everyday questions lead to their page; words of other fields to none."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from pellucid.errors import PellucidError
from pellucid.textbook import Concept, Entry, concepts, look_up
from pellucid.textbook.normalise import key, stem
from pellucid.textbook.search import find_concept, similar_names

LISTS = tomllib.loads(Path(__file__).with_name("terms.toml").read_text("utf-8"))
TERMS: dict[str, list[str]] = LISTS["terms"]
OTHER_FIELDS: list[str] = LISTS["other_fields"]["words"]


def meaning(words: str) -> str | None:
    concept = find_concept(words)
    return concept.id if concept else None


def test_what_readers_type_leads_to_the_right_page() -> None:
    pairs = [(words, name) for name, of_name in TERMS.items() for words in of_name]
    wrong = [(words, name, meaning(words)) for words, name in pairs if meaning(words) != name]
    assert len(pairs) > 1200
    assert len(wrong) <= 0.005 * len(pairs), wrong


def test_words_of_other_fields_lead_nowhere_and_to_no_suggestion() -> None:
    wrong = [words for words in OTHER_FIELDS if meaning(words) or similar_names(words)]
    assert len(OTHER_FIELDS) > 350
    assert len(wrong) <= 0.01 * len(OTHER_FIELDS), wrong


def test_every_name_of_a_concept_leads_to_it_and_no_two_share_one() -> None:
    owners: dict[str, set[str]] = {}
    for concept in concepts().values():
        for name in concept.names:
            owners.setdefault(key(name), set()).add(concept.id)
    assert {name: of_name for name, of_name in owners.items() if len(of_name) > 1} == {}
    assert {
        name for concept in concepts().values() for name in concept.names if not find_concept(name)
    } == set()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("why divide by √d_k?", "attention-scale"),
        ("What is p − y?", "p-minus-y"),
        ("KV-caches", "kv-cache"),
        ("normalization of layers", "layer-norm"),
        ("Rényi entropy", "renyi-entropy"),
        ("softmax(QKᵀ/√d_k)V", "self-attention"),
        ("ATT002", "causal-leak"),
        ("gradient.depth_ratio", "depth"),
        ("AdamW.betas", "adam"),
        ("", None),
        ("what is the", None),
        ("?!", None),
    ],
)
def test_signs_symbols_and_links_are_understood(words: str, name: str | None) -> None:
    assert meaning(words) == name


def test_forms_of_a_word_have_one_stem() -> None:
    assert len({stem(f"saturat{ending}") for ending in ("e", "es", "ed", "ing", "ion")}) == 1
    assert stem("loss") != stem("low")


def test_a_concept_with_an_equation_gives_its_entry_and_one_without_itself() -> None:
    result = look_up("label smoothing")
    assert isinstance(result, Entry)
    assert (result.name, result.concept and result.concept.id) == (
        "cross_entropy",
        "label-smoothing",
    )
    assert isinstance(look_up("teacher forcing"), Concept)


@pytest.mark.parametrize("words", ["photosynthesis", "Bayes factor", "convolution", ""])
def test_a_refusal_of_another_field_suggests_nothing(words: str) -> None:
    with pytest.raises(PellucidError, match="see all with: pellucid equations"):
        look_up(words)


@pytest.mark.parametrize(
    ("slip", "name"), [("perplexty", "perplexity"), ("cross entrpy", "cross-entropy")]
)
def test_a_slip_is_answered_with_the_name(slip: str, name: str) -> None:
    with pytest.raises(PellucidError, match=f"did you mean {name}"):
        look_up(slip)
