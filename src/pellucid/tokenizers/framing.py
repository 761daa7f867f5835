"""How a whole text is framed for an encoder, and where a word of it is masked.

What frames a text is what the tokenizer's file says (its post-processor). Where it says nothing, a
text is framed as a document is: its begin before it, its end behind it, once where they are one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid.errors import TextError
from pellucid.json_text import json_text
from pellucid.reader import parse_json_table, parse_tokenizer
from pellucid.tokenizers.tokenizer import Tokenizer


class Cut(NamedTuple):
    """The ids of a text that fits, and whether some of it was cut off for that."""

    ids: list[int]
    truncated: bool


class Framing:
    """Texts as an encoder reads them, or a decoder that names their class.

    With `masks`, the name of the mask token in a text is the mask; every other name of a special
    token, and without `masks` this one too, is text as any other.

    Raises:
        TextError: masks are asked for, and the tokenizer has no mask token.
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
        self._says = bool(self._inner.encode("", add_special_tokens=True).ids)

    @classmethod
    def for_classes(cls, tokenizer: Tokenizer) -> Framing:
        """Texts whose class is asked for, for an encoder or a decoder.

        A file with a post-processor that puts nothing around a text, such as GPT-2's, is taken at
        its word: so its classifiers were trained.
        """
        framing = cls(tokenizer)
        table = parse_json_table(tokenizer.to_json(), "the tokenizer")
        framing._says = framing._says or table["post_processor"] is not None
        return framing

    def ids_of(self, text: str, *, called: str = "text") -> list[int]:
        """The ids of a text and of what frames it.

        Raises:
            TextError: the text, which the message calls `called`, holds half a character.
        """
        self._tokenizer.encode_prompt(text, called=called)  # for its refusal
        ids = self._inner.encode(text, add_special_tokens=True).ids
        if self._says:
            return ids
        begin, end = self._tokenizer.begin_id, self._tokenizer.end_id
        return [begin, *ids, *([] if begin == end else [end])]

    def ids_within(self, text: str, longest: int, *, called: str = "text") -> Cut:
        """As `ids_of`, at most `longest` of them: the text's end is cut off, its frame stays.

        Raises:
            TextError: as `ids_of`; there is no token; or the frame leaves no room for a text.
        """
        framed = self.ids_of(text, called=called)
        if not framed:
            raise TextError(f"the {called} has no token that the tokenizer knows: leave it out")
        if len(framed) <= longest:
            return Cut(framed, truncated=False)
        inner = self._inner.encode(text, add_special_tokens=False).ids
        around = len(framed) - len(inner)
        if around >= longest:
            raise TextError(
                f"the {called} has {around} tokens around it, and the model reads at most "
                f"{longest:,}: take a model with a longer context"
            )
        offset = next(at for at in range(around + 1) if framed[at : at + len(inner)] == inner)
        clipped = inner[: longest - around]
        return Cut([*framed[:offset], *clipped, *framed[offset + len(inner) :]], truncated=True)


def _let_mask_be_found(table: dict[str, Any], mask: str) -> None:
    """What is not special is looked for in a text; special tokens are not, as everywhere here."""
    mask_tokens = [token for token in table["added_tokens"] if token["content"] == mask]
    if not mask_tokens:
        raise TextError(
            "the tokenizer has no token that stands for a masked word ([MASK] or <mask>): its "
            "model was not trained to fill one; take a run of a masked language model"
        )
    for token in mask_tokens:
        token["special"] = False
