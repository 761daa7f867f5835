"""A text with masks, and the tokens behind them."""

from __future__ import annotations

from dataclasses import replace

import torch

from pellucid.errors import PellucidError
from pellucid.explain.losses.types import (
    TokenLoss,
)
from pellucid.explain.sentence import Sentence, encode_sentence
from pellucid.runs import Run


def masked_sentence(run: Run, masked: str, full: str) -> Sentence:
    """A text with masks, and the tokens behind them.

    Args:
        run: an encoder with a language head.
        masked: the text with its mask tokens.
        full: the same text without them.

    Raises:
        PellucidError: the two do not fit: they differ elsewhere, or in the number of tokens.
    """
    read, answer = encode_sentence(run, masked), encode_sentence(run, full)
    mask = run.require_tokenizer().roles().get("mask_token", "the mask")
    if not read.masks:
        raise PellucidError(f"the text has no {mask}: write it where a word is to be predicted")
    if len(read.ids) != len(answer.ids):
        raise PellucidError(
            f"the text has {len(read.ids)} tokens with its masks, and the target "
            f"{len(answer.ids)}: each {mask} hides one token; the target's tokens are "
            f"{' '.join(map(repr, answer.pieces))}"
        )
    for place, (masked_id, full_id) in enumerate(zip(read.ids, answer.ids, strict=True)):
        if masked_id != full_id and place not in read.masks:
            raise PellucidError(
                f"the text and the target differ at token {place} ({read.pieces[place]!r} and "
                f"{answer.pieces[place]!r}), and no {mask} is there"
            )
    places = torch.tensor(read.masks, device=run.model.device)
    targets = torch.tensor([answer.ids[place] for place in read.masks], device=run.model.device)
    return replace(read, loss=TokenLoss(places=places, targets=targets), is_example=True)
