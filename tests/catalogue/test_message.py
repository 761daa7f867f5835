"""A message is English text that knows its key and its values."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from pellucid.catalogue import Message, join, message


def test_a_message_is_its_english_text() -> None:
    text = message("update.each-is-divided-by", length=2.5)
    assert text == "each is divided by 2.5"
    assert json.dumps([text]) == '["each is divided by 2.5"]'
    assert (text.key, text.values) == ("update.each-is-divided-by", {"length": 2.5})


def test_n_chooses_the_plural_form() -> None:
    assert message("heads.look-at-the-source", n=1) == "One head looks at the source."
    assert message("heads.look-at-the-source", n=2).startswith("2 heads look")


def test_a_text_with_several_counts_takes_each_as_a_message_of_its_own() -> None:
    layers = message("count-layers", n=1)
    assert message("about-run", parameters="6.3k", layers=layers, width=16) == (
        "6.3k parameters, 1 layer, width 16"
    )
    tokens = [message("count-tokens", n=n) for n in (1, 2)]
    text = message(
        "why.the-contrast-has-tokens-and", contrast=tokens[0], sentence=tokens[1], pieces="a"
    )
    assert text.startswith("the contrast has 1 token and the sentence 2 tokens")


def test_a_text_without_a_key_or_a_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        message("no.such-key")
    with pytest.raises(KeyError):
        message("update.each-is-divided-by")


def test_messages_added_to_each_other_stay_messages() -> None:
    first, second = message("word.scores"), message("word.weights")
    text = "(" + first + ", " + second
    assert isinstance(text, Message)
    assert text == "(scores, weights"
    assert list(text.values.values()) == ["(", first, ", ", second]
    joined = join(", ", [first, "plain", second])
    assert isinstance(joined, Message)
    assert joined == "scores, plain, weights"
    assert join(", ", []) == ""
    assert not isinstance(join(", ", ["a", "b"]), Message)


def test_a_copy_is_a_message_too() -> None:
    text = message("update.each-is-divided-by", length=2.5)
    for other in (copy.deepcopy(text), pickle.loads(pickle.dumps(text))):
        assert isinstance(other, Message)
        assert (other, other.key, other.values) == (text, text.key, text.values)


def test_what_is_no_number_and_no_text_is_taken_as_text() -> None:
    assert message("request").values == {}
    assert message("unreadable", error=ValueError("x")).values == {"error": "x"}
    assert message("bad-place", names=["a"], raw=True).values == {"names": "['a']", "raw": "True"}
