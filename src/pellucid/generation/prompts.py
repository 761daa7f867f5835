"""The starts of generation: prompts, or an encoder-decoder's sources."""

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
    """The token ids that each row continues, and the encoder's states; row i is for text i.

    Attributes:
        ids: token ids, one list for each row.
        encoded: the encoder's states; None for a decoder.
    """

    ids: list[list[int]]
    encoded: Encoded | None


def start(model: Transformer, tokenizer: Tokenizer, texts: Sequence[str]) -> Start:
    """The starts for a batch of texts.

    A decoder continues the texts. An encoder-decoder reads them and generates new ones.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        texts: prompts or sources.

    Raises:
        TextError: a text contains half a character.
        PellucidError: the model cannot generate, because it is an encoder or has no head for
            tokens; or a source is too long for it.
    """
    if model.encoder is not None and model.decoder is None:
        raise PellucidError(
            "this model is an encoder, which reads a text as a whole and cannot generate one: fill "
            "masked words with `pellucid fill`, or compare texts with `pellucid embed`"
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
    """The encoder's states of a batch of sources.

    Raises:
        PellucidError: a source is longer than the model's context.
    """
    model.eval()
    ids, padding = pad(sources, model.device)
    return model.encode(ids, padding=padding)


def pad(
    rows: Sequence[Sequence[int]], device: torch.device
) -> tuple[Int[Tensor, "rows time"], Bool[Tensor, "rows time"] | None]:
    """Rows of ids as one padded tensor, and a mask that is True for real ids; None if all are."""
    lengths = [len(row) for row in rows]
    longest = max(lengths)
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], device=device)
    if min(lengths) == longest:
        return ids, None
    places = torch.arange(longest, device=device)
    return ids, places < torch.tensor(lengths, device=device)[:, None]
