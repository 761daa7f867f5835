"""`generation_config.json`: how pellucid writes if you say nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pellucid import config
from pellucid.generation import Beams, Sampling


def special_ids(
    model: config.Transformer, *, begin: int, end: int, pad: int | None
) -> dict[str, int | None]:
    """The special tokens under the names of `config.json`.

    Args:
        model: which of them it needs.
        begin: the token that begins a text.
        end: the token that ends it.
        pad: the tokenizer's own token for padding, if it has one.
    """
    if model.decoder is None:
        return {"pad_token_id": pad}
    if model.encoder is None:
        # a classifier of `transformers` without a padding token reads one text at a time; with the
        # end token as padding it would take the token before the end for the last
        classifies = isinstance(model.head, config.ClassificationHead)
        pad = pad if classifies else None
        return {"bos_token_id": begin, "eos_token_id": end, "pad_token_id": pad}
    return {"decoder_start_token_id": begin, "pad_token_id": begin, "eos_token_id": end}


def generation_table(
    model: config.Transformer, ids: Mapping[str, int | None], *, answers: bool
) -> dict[str, Any] | None:
    """The content of `generation_config.json`; None for a model that writes no text.

    Args:
        model: a decoder or an encoder-decoder.
        ids: as `special_ids` gives them.
        answers: whether the run learnt to answer; then the likeliest tokens are the default.
    """
    if model.decoder is None or not isinstance(model.head, config.LanguageHead):
        return None
    if model.encoder is not None:
        beams = Beams()
        return {
            **ids,
            "do_sample": False,
            "num_beams": beams.n_beams,
            "length_penalty": beams.length_penalty,
            "early_stopping": beams.early_stopping,
            "max_new_tokens": beams.max_new_tokens,
        }
    sampling = Sampling()
    if answers:
        return {**ids, "do_sample": False, "max_new_tokens": sampling.max_new_tokens}
    return {
        **ids,
        "do_sample": True,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k or 0,
        "top_p": 1.0 if sampling.top_p is None else sampling.top_p,
        "max_new_tokens": sampling.max_new_tokens,
    }
