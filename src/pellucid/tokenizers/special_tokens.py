"""Which tokens begin and end a text: by what published files say, or by their names.

`tokenizer_config.json` has {"bos_token": "<s>", "eos_token": {"content": "</s>"}, ...}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import tokenizers
from tokenizers import processors

from pellucid.errors import TextError
from pellucid.json_text import json_text
from pellucid.reader import parse_json_table, parse_tokenizer, read_json_table

SETTINGS = "tokenizer_config.json"

BEGIN = "<|begin_of_text|>"
END = "<|end_of_text|>"
UNKNOWN = "<|unknown|>"

#: What begins and ends a text: ours, GPT-2's (one token is both), BERT's, SentencePiece's, Gemma's.
_ENDS = (
    (BEGIN, END),
    ("<|endoftext|>", "<|endoftext|>"),
    ("[CLS]", "[SEP]"),
    ("<s>", "</s>"),
    ("<bos>", "<eos>"),
)
#: What else published files name, and the names it goes by.
_ROLES = {
    "unk_token": (UNKNOWN, "<unk>", "[UNK]"),
    "pad_token": ("<pad>", "[PAD]"),
    "mask_token": ("<mask>", "[MASK]"),
}


def named_ends(folder: Path) -> tuple[str | None, str | None]:
    """The tokens that begin and end a text by `tokenizer_config.json`; None where it says nothing.

    BERT's begin with [CLS] and end with [SEP].

    Raises:
        TextError: the file is not JSON.
    """
    file = folder / SETTINGS
    if not file.is_file():
        return None, None
    settings = read_json_table(file, refusal=TextError)
    begin = _name(settings.get("bos_token")) or _name(settings.get("cls_token"))
    end = _name(settings.get("eos_token")) or _name(settings.get("sep_token"))
    return begin, end


def read_ends(
    inner: tokenizers.Tokenizer,
    folder: Path,
    begin_id: int | None = None,
    end_id: int | None = None,
) -> tuple[str, str] | None:
    """The ends that files in `folder` name, or else these ids; None where neither tells.

    Ids of ordinary tokens tell nothing: many a config.json repeats those of another tokenizer. If
    only one end is told, the other is taken from the names that are known, or is the same.
    """
    special = {i: t.content for i, t in inner.get_added_tokens_decoder().items() if t.special}
    begin, end = (
        name if name is not None and inner.token_to_id(name) is not None else special.get(number)
        for name, number in zip(
            named_ends(folder),
            (-1 if begin_id is None else begin_id, -1 if end_id is None else end_id),
            strict=True,
        )
    )
    if begin is not None and end is not None:
        return begin, end
    named = begin or end
    if named is None:
        return None
    ends = _ends_by_name(inner) or (named, named)
    return begin or ends[0], end or ends[1]


def known_ends(inner: tokenizers.Tokenizer) -> tuple[str, str]:
    """The tokens that begin and end a text by their names.

    Raises:
        TextError: none of those that are known is there.
    """
    if (ends := _ends_by_name(inner)) is not None:
        return ends
    pairs = "; ".join(b if b == e else f"{b} and {e}" for b, e in _ENDS)
    raise TextError(
        f"the tokenizer has no tokens that begin and end a text: add one of these to its "
        f"vocabulary ({pairs}), or train one with pellucid"
    )


def roles_of(begin: str, end: str, *, has: Callable[[str], bool]) -> dict[str, str]:
    """The special tokens that there are, by what `tokenizer_config.json` calls them."""
    first, last = ("cls", "sep") if begin == "[CLS]" else ("bos", "eos")
    roles = {f"{first}_token": begin, f"{last}_token": end}
    for role, names in _ROLES.items():
        token = next((name for name in names if has(name)), None)
        roles |= {} if token is None else {role: token}
    return roles


def put_around(file: str, around: list[str], ids: Mapping[str, int]) -> str:
    """A `tokenizer.json` that also says what `transformers` puts around a text, "$A".

    One that says it already is left as it is.
    """
    if parse_json_table(file, "the tokenizer")["post_processor"] is not None:
        return file
    inner: Any = parse_tokenizer(file, "the tokenizer")
    template: Any = processors.TemplateProcessing
    inner.post_processor = template(single=around, special_tokens=sorted(ids.items()))
    return inner.to_str(pretty=True)


def settings_for(tokens: Mapping[str, str], *, context_length: int | None = None) -> str:
    """A `tokenizer_config.json` with these tokens, which lets `transformers` read `tokenizer.json`.

    Tokens by what they are for: "bos_token", "eos_token" and so on.
    """
    table: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", **tokens}
    if context_length is not None:
        table["model_max_length"] = context_length
    return json_text(table, indent=2) + "\n"


def _ends_by_name(inner: tokenizers.Tokenizer) -> tuple[str, str] | None:
    for begin, end in _ENDS:
        if inner.token_to_id(begin) is not None and inner.token_to_id(end) is not None:
            return begin, end
    return None


def _name(value: Any) -> str | None:
    """A token's name, which may be the content of an object."""
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).get("content")
    return value if isinstance(value, str) and value else None
