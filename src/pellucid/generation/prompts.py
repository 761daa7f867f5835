"""Where writing starts: after a prompt, or from nothing with another text to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.model import Encoded, Transformer
from pellucid.tokenizers import Framing, Tokenizer


class Start(NamedTuple):
    """The ids that each row goes on from, and what it looks at; row i is for text i."""

    ids: list[list[int]]
    encoded: Encoded | None


def start(model: Transformer, tokenizer: Tokenizer, texts: Sequence[str]) -> Start:
    """A decoder goes on with the texts; a decoder with an encoder writes anew, looking at them.

    Raises:
        TextError: a text holds half a character.
        PellucidError: the model is an encoder or has no head, and so writes nothing; or a source
            is too long for it.
    """
    if model.encoder is not None and model.decoder is None:
        raise PellucidError(
            "this model is an encoder: it reads a text as a whole and writes none; let it fill a "
            "masked word with pellucid fill, or compare texts with pellucid embed"
        )
    model.output_head.require_token_logits()
    if model.encoder is None:
        return Start([tokenizer.encode_prompt(text) for text in texts], None)
    if not texts:
        return Start([], None)
    framing = Framing(tokenizer)
    return Start(
        [[tokenizer.begin_id] for _ in texts],
        encode(model, [framing.ids_of(text, name="source") for text in texts]),
    )


@torch.inference_mode()
def encode(model: Transformer, sources: Sequence[Sequence[int]]) -> Encoded:
    """What an encoder-decoder's encoder makes of a batch of sources, each read once.

    Raises:
        PellucidError: a source is longer than the model's context.
    """
    model.eval()
    ids, padding = pad(sources, model.device)
    return model.encode(ids, padding=padding)


def pad(
    rows: Sequence[Sequence[int]], device: torch.device
) -> tuple[Int[Tensor, "rows time"], Bool[Tensor, "rows time"] | None]:
    """Rows of ids as one tensor, and where they are real; None where all of them are.

    What stands behind the end of a row is never looked at.
    """
    lengths = [len(row) for row in rows]
    longest = max(lengths)
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], device=device)
    if min(lengths) == longest:
        return ids, None
    places = torch.arange(longest, device=device)
    return ids, places < torch.tensor(lengths, device=device)[:, None]
