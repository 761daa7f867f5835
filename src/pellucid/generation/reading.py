"""Reading the new tokens of texts: a prompt at once, then token by token.

All but the last token need no logits. Compiled code takes the last one, and short prompts. A prompt
of many tokens is read by the model itself, and compiled code only computes its logits; if matrices
are in few bits, the model multiplies them in bfloat16, by the processor's own instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.generation.cuda_graphs import Steps
from pellucid.generation.decoding import Decoder
from pellucid.model import Encoded, KeyValueCache, Transformer
from pellucid.model.half import has_half
from pellucid.model.packed.layers import is_packed
from pellucid.typed import multiplies_bfloat16

#: From so many tokens on, products of all of them in bfloat16 take less time than one by one.
LONG = 64


def read(
    model: Transformer,
    decoder: Decoder | Steps | None,
    ids: Int[Tensor, "rows time"],
    caches: Sequence[KeyValueCache],
    encoded: Encoded | None = None,
) -> Float[Tensor, "rows vocab"]:
    """The logits after new tokens; their keys and values go into the caches.

    Args:
        model: the model.
        decoder: compiled or recorded code for it, if there is any.
        ids: (rows, time), the new tokens; all rows have read the same number before.
        caches: of the tokens before them.
        encoded: the encoder's states of each row's source.

    Raises:
        PellucidError: there are more tokens than the context holds.
    """
    if isinstance(decoder, Decoder) and not decoder.steps_aside:
        decoder.make_rooms(caches, len(ids))
        if ids.shape[1] > LONG:
            with _products(model):
                states = model.states(ids, caches)[:, -1]
            logits = decoder.head_logits(states)
            return model.logits(model.readable(states)).float() if logits is None else logits
        if ids.shape[1] > 1 and not (in_few_bits(model) and decoder.read(ids[:, :-1], caches)):
            model.states(ids[:, :-1], caches)
        ids = ids[:, -1:]
    if decoder is not None and ids.shape[1] == 1:
        logits = decoder.logits(ids[:, 0], caches)
        if logits is not None:
            return logits
    hidden = model.hidden_states(ids, caches, encoded=encoded)
    return model.logits(hidden[:, -1]).float()


def in_few_bits(model: Transformer) -> bool:
    """Whether the model's matrices were rounded to fewer bits than float32 has."""
    return bool(model.narrow) or is_packed(model) or has_half(model)


def _products(model: Transformer) -> AbstractContextManager[object]:
    """A context for products: in bfloat16 if they may be, and if the processor has such."""
    if in_few_bits(model) and multiplies_bfloat16(torch.device("cpu")):
        return torch.autocast("cpu", torch.bfloat16)
    return nullcontext()
