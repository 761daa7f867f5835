"""The tokens that begin and end a text: by published files, or by their names.

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

#: The file of a published tokenizer's settings.
SETTINGS = "tokenizer_config.json"

BEGIN = "<|begin_of_text|>"
END = "<|end_of_text|>"
UNKNOWN = "<|unknown|>"

#: Begin and end of a text: ours, GPT-2's (the same token), BERT's, SentencePiece's, Gemma's.
_ENDS = (
    (BEGIN, END),
    ("<|endoftext|>", "<|endoftext|>"),
    ("[CLS]", "[SEP]"),
    ("<s>", "</s>"),
    ("<bos>", "<eos>"),
)
#: Other special tokens in published files, with their usual names.
_ROLES = {
    "unk_token": (UNKNOWN, "<unk>", "[UNK]"),
    "pad_token": ("<pad>", "[PAD]"),
    "mask_token": ("<mask>", "[MASK]"),
}


def named_ends(folder: Path) -> tuple[str | None, str | None]:
    """The begin and end token in `tokenizer_config.json`; None if it does not name them.

    In BERT's files they are [CLS] and [SEP].

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
    """The begin and end token by the files in `folder`, or else by id; None if neither helps.

    Ids of ordinary tokens are ignored, because many a config.json has ids of another tokenizer. If
    only one token is known, the other has a known name or is the same token.

    Args:
        inner: the tokenizer.
        folder: the folder of `tokenizer_config.json`.
        begin_id: the begin token by the config of a model.
        end_id: the end token by the config of a model.
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
    known_end = begin or end
    if known_end is None:
        return None
    ends = _ends_by_name(inner) or (known_end, known_end)
    return begin or ends[0], end or ends[1]


def known_ends(inner: tokenizers.Tokenizer) -> tuple[str, str]:
    """The begin and end token by their names.

    Raises:
        TextError: the vocabulary has none of the known names.
    """
    if (ends := _ends_by_name(inner)) is not None:
        return ends
    pairs = "; ".join(b if b == e else f"{b} and {e}" for b, e in _ENDS)
    raise TextError(
        f"the tokenizer has no tokens that begin and end a text: add one of these to its "
        f"vocabulary ({pairs}), or train one with pellucid"
    )


def roles_of(begin: str, end: str, *, is_token: Callable[[str], bool]) -> dict[str, str]:
    """The special tokens of a vocabulary, by their keys in `tokenizer_config.json`.

    Args:
        begin: the begin token.
        end: the end token.
        is_token: whether the vocabulary has a token.
    """
    first, last = ("cls", "sep") if begin == "[CLS]" else ("bos", "eos")
    roles = {f"{first}_token": begin, f"{last}_token": end}
    for role, names in _ROLES.items():
        token = next((name for name in names if is_token(name)), None)
        roles |= {} if token is None else {role: token}
    return roles


def add_frame(file: str, frame: list[str], ids: Mapping[str, int]) -> str:
    """A `tokenizer.json` with a post-processor that frames each text, "$A", in `transformers`.

    A file that already has a post-processor stays unchanged.

    Args:
        file: the `tokenizer.json`.
        frame: the tokens of the frame, and "$A" for the text.
        ids: the ids of these tokens.
    """
    if parse_json_table(file, "the tokenizer")["post_processor"] is not None:
        return file
    inner: Any = parse_tokenizer(file, "the tokenizer")
    template: Any = processors.TemplateProcessing
    inner.post_processor = template(single=frame, special_tokens=sorted(ids.items()))
    return inner.to_str(pretty=True)


def settings_for(tokens: Mapping[str, str], *, context_length: int | None = None) -> str:
    """A `tokenizer_config.json`, with which `transformers` reads `tokenizer.json`.

    The keys of `tokens` are "bos_token", "eos_token" and so on.
    """
    # older versions of `transformers` would move the spaces around signs when they decode
    kept = {"clean_up_tokenization_spaces": False}
    table: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", **tokens, **kept}
    if context_length is not None:
        table["model_max_length"] = context_length
    return json_text(table, indent=2) + "\n"


def _ends_by_name(inner: tokenizers.Tokenizer) -> tuple[str, str] | None:
    for begin, end in _ENDS:
        if inner.token_to_id(begin) is not None and inner.token_to_id(end) is not None:
            return begin, end
    return None


def _name(value: Any) -> str | None:
    """The name of a token, which may be the content of an object."""
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).get("content")
    return value if isinstance(value, str) and value else None
