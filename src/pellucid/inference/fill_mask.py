"""Masked tokens of a text, filled by an encoder.

Each mask is filled alone: P(token at the mask | the text with its other masks). The likeliest
tokens of two masks need not be the likeliest pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pellucid.errors import ConfigError, PellucidError, TextError
from pellucid.generation import finite
from pellucid.inference.scoring import Likely
from pellucid.saved_runs.inference_memory import check_reading
from pellucid.saved_runs.load import Run
from pellucid.saved_runs.requirements import kind_of
from pellucid.tokenizers import Framing


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """A mask: its position among the text's tokens, and the likeliest tokens for it.

    Attributes:
        position: of the mask, from 0.
        likeliest: the tokens that fit best, the best first.
    """

    position: int
    likeliest: tuple[Likely, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """A text with masks; `filled` has the likeliest token in place of each.

    Attributes:
        text: the text with its masks.
        masks: each mask, in order.
    """

    text: str
    filled: str
    masks: tuple[Mask, ...]


@torch.inference_mode()
def fill(run: Run, text: str, *, top: int = 5, force: bool = False) -> Filling:
    """The likeliest tokens at each mask of a text.

    Args:
        run: a run of an encoder.
        text: the text; write masks as the tokenizer names them: [MASK] or <mask>.
        top: how many tokens to return for each mask.
        force: read the text even if pellucid expects to need more memory than is free.

    Raises:
        ConfigError: `top` is less than 1.
        TextError: the text has no mask, or the tokenizer has none.
        PellucidError: the model fills no masks, or the text is longer than its context.
    """
    if top < 1:
        raise ConfigError(f"top must be at least 1, was {top}")
    _refuse_to_fill(run)
    tokenizer = run.require_tokenizer()
    framing = Framing(tokenizer, masks=True)
    ids = framing.ids_of(text)
    places = [place for place, token_id in enumerate(ids) if token_id == framing.mask_id]
    if not places:
        raise TextError(
            f"the text has no {framing.mask}: write {framing.mask} where a word is missing"
        )
    lower = "the length of the text"
    check_reading(run, sequences=1, length=len(ids), lower=lower, logits=True, force=force)
    hidden = run.model.hidden_states(torch.tensor([ids], device=run.model.device))
    logits = finite(run.model.logits(hidden[0, places]), "the logits at the mask")
    shares = torch.softmax(logits.cpu().double(), dim=-1)  # MPS has no float64
    values, tokens = shares.topk(min(top, shares.shape[-1]))
    for place, row in zip(places, tokens, strict=True):
        ids[place] = int(row[0])
    return Filling(
        text=text,
        filled=tokenizer.decode(ids),
        masks=tuple(
            Mask(
                position=place,
                likeliest=tuple(
                    Likely(int(token), tokenizer.token(int(token)), float(share))
                    for token, share in zip(row_tokens, row_shares, strict=True)
                ),
            )
            for place, row_tokens, row_shares in zip(places, tokens, values, strict=True)
        ),
    )


def _refuse_to_fill(run: Run) -> None:
    kind = kind_of(run.model)
    if kind != "encoder":
        raise PellucidError(
            f"this model is {'a' if kind == 'decoder' else 'an'} {kind}: it writes from left to "
            "right and fills no masks; let it write with pellucid generate, or take a run of a "
            "masked language model"
        )
    run.model.output_head.require_token_logits()
