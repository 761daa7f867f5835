"""Texts with their frame of special tokens, as an encoder reads them, and with masks.

The post-processor in the tokenizer's file decides the frame. Without one, a text has the frame of a
document: the begin token before it and the end token after it, or only one if both are the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid.errors import TextError
from pellucid.json_text import json_text
from pellucid.reader import parse_json_table, parse_tokenizer
from pellucid.tokenizers.tokenizer import Tokenizer


class Cut(NamedTuple):
    """The ids of a text, and whether its end was cut off.

    Attributes:
        ids: token ids.
        truncated: whether the end was cut off.
    """

    ids: list[int]
    truncated: bool


class Framing:
    """Frames texts for an encoder, or for a decoder that classifies them.

    With `masks`, the name of the mask token in a text becomes the mask token. All other names of
    special tokens in a text are ordinary text.

    Raises:
        TextError: `masks` is true, but the tokenizer has no mask token.
    """

    def __init__(self, tokenizer: Tokenizer, *, masks: bool = False) -> None:
        self._tokenizer = tokenizer
        table = parse_json_table(tokenizer.to_json(), "the tokenizer")
        self.mask = tokenizer.roles().get("mask_token", "")
        if masks:
            _let_mask_be_found(table, self.mask)
        self.mask_id = tokenizer.id_of(self.mask)
        self._inner = parse_tokenizer(json_text(table), "the tokenizer")
        self._inner.encode_special_tokens = True
        self._has_frame = bool(self._inner.encode("", add_special_tokens=True).ids)

    @classmethod
    def for_classes(cls, tokenizer: Tokenizer) -> Framing:
        """The frame of texts to classify, for an encoder or a decoder.

        If a file has a post-processor that adds no tokens, such as GPT-2's, texts have no frame:
        its classifiers were trained this way.
        """
        framing = cls(tokenizer)
        table = parse_json_table(tokenizer.to_json(), "the tokenizer")
        framing._has_frame = framing._has_frame or table["post_processor"] is not None
        return framing

    def ids_of(self, text: str, *, name: str = "text") -> list[int]:
        """The ids of a text with its frame.

        Raises:
            TextError: the text, `name` in the message, has half a character.
        """
        self._tokenizer.encode_prompt(text, name=name)  # for its refusal
        ids = self._inner.encode(text, add_special_tokens=True).ids
        if self._has_frame:
            return ids
        begin, end = self._tokenizer.begin_id, self._tokenizer.end_id
        return [begin, *ids, *([] if begin == end else [end])]

    def ids_within(self, text: str, longest: int, *, name: str = "text") -> Cut:
        """As `ids_of`, but at most `longest` ids: the end of the text is cut off, the frame stays.

        Args:
            text: the text.
            longest: the most ids.
            name: the name of the text in messages.

        Raises:
            TextError: as `ids_of`; or the text has no token; or the frame leaves no room for it.
        """
        framed = self.ids_of(text, name=name)
        if not framed:
            raise TextError(f"the {name} has no token that the tokenizer knows: leave it out")
        if len(framed) <= longest:
            return Cut(framed, truncated=False)
        inner = self._inner.encode(text, add_special_tokens=False).ids
        n_frame = len(framed) - len(inner)
        if n_frame >= longest:
            raise TextError(
                f"the {name} has a frame of {n_frame} tokens, but the model reads at most "
                f"{longest:,}: use a model with a longer context"
            )
        offset = next(
            start for start in range(n_frame + 1) if framed[start : start + len(inner)] == inner
        )
        clipped = inner[: longest - n_frame]
        return Cut([*framed[:offset], *clipped, *framed[offset + len(inner) :]], truncated=True)


def _let_mask_be_found(table: dict[str, Any], mask: str) -> None:
    """Let the library find the mask token in texts, where it finds no special tokens."""
    mask_tokens = [token for token in table["added_tokens"] if token["content"] == mask]
    if not mask_tokens:
        raise TextError(
            "the tokenizer has no mask token ([MASK] or <mask>), so its model cannot fill one: use "
            "a run of a masked language model"
        )
    for token in mask_tokens:
        token["special"] = False
