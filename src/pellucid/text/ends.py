"""Which tokens begin and end a text, as published files say it.

    tokenizer_config.json    {"bos_token": "<s>", "eos_token": {"content": "</s>"}, ...}

Comes in: the folder of a tokenizer. Goes out: names of tokens. It does not know tokenizers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pellucid.errors import TextError

SETTINGS = "tokenizer_config.json"


def named_ends(folder: Path) -> tuple[str | None, str | None]:
    """The tokens that begin and end a text by `tokenizer_config.json`; None where it says nothing.

    BERT's begin with [CLS] and end with [SEP].

    Raises:
        TextError: the file is not JSON.
    """
    file = folder / SETTINGS
    if not file.is_file():
        return None, None
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TextError(f"{file} is not JSON: {error}") from None
    if not isinstance(table, dict):
        raise TextError(f"{file} must be an object with names, was {table!r}")
    settings = cast("dict[str, Any]", table)
    begin = _name(settings.get("bos_token")) or _name(settings.get("cls_token"))
    end = _name(settings.get("eos_token")) or _name(settings.get("sep_token"))
    return begin, end


def settings_for(tokens: Mapping[str, str], *, context_length: int | None = None) -> str:
    """A `tokenizer_config.json` with these tokens, which lets `transformers` read `tokenizer.json`.

    Tokens by what they are for: "bos_token", "eos_token" and so on.
    """
    table: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", **tokens}
    if context_length is not None:
        table["model_max_length"] = context_length
    return json.dumps(table, indent=2) + "\n"


def _name(value: Any) -> str | None:
    """A token's name, which may be the content of an object."""
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).get("content")
    return value if isinstance(value, str) and value else None
