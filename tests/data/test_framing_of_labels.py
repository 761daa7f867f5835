"""What a classifier is taught is what it is asked: one framing for both."""

from __future__ import annotations

import json

import tokenizers

from pellucid.data import Labelled, Row
from pellucid.data.columns import parse_column
from pellucid.data.example import Example
from pellucid.data.pairs_and_labels import Classes, LabelColumns
from pellucid.tokenizers import Framing, Tokenizer, train_bytes


def published() -> Tokenizer:
    """A tokenizer whose file has a post-processor that puts nothing around a text, as GPT-2's."""
    table = json.loads(train_bytes().to_json())
    table["post_processor"] = {
        "type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True
    }  # fmt: skip
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(table)))


def test_texts_with_labels_are_framed_as_they_are_when_their_class_is_asked_for() -> None:
    columns = LabelColumns(parse_column("text"), parse_column("label"), None)
    values = {"text": "spam and eggs", "label": "spam"}
    row = Row(file="rows.jsonl", number=1, location="row 1", values=values)
    for tokenizer in (train_bytes(), published()):
        for longest in (64, 6):
            form = Labelled(
                columns, Classes(("ham", "spam"), multi=False), tokenizer, context_length=longest
            )
            example = form.encode(row)
            assert isinstance(example, Example)
            framed = Framing.for_classes(tokenizer).ids_within("spam and eggs", longest)
            assert (example.ids["ids"], example.truncated) == (framed.ids, framed.truncated)
    assert Framing.for_classes(published()).ids_of("a") == published().encode("a")
