"""The abilities of each kind of model, and refusals for the others.

a decoder           continues a text, and gives each token a probability
an encoder          sees the whole text: fills masked words, embeds texts
an encoder-decoder  writes a text from another one
"""

from __future__ import annotations

from typing import Literal

from pellucid import config
from pellucid.errors import PellucidError
from pellucid.model import Transformer

#: What a model is.
Kind = Literal["decoder", "encoder", "encoder-decoder"]


def kind_of(model: Transformer | config.Transformer) -> Kind:
    """Which of its two stacks a model has."""
    if model.encoder is None:
        return "decoder"
    return "encoder" if model.decoder is None else "encoder-decoder"


def refuse_to_predict(model: Transformer) -> None:
    """Refuse a model that gives no probability to each token from the tokens before it.

    Raises:
        PellucidError: the model does not continue texts, or has no head.
    """
    match kind_of(model):
        case "decoder":
            _ = model.head_weight  # for its refusal
        case "encoder":
            raise PellucidError(
                "this model is an encoder: it sees a text as a whole, and gives no token a "
                "probability from those before it; let it fill a masked word with pellucid fill, "
                "or compare texts with pellucid embed"
            )
        case "encoder-decoder":
            raise PellucidError(
                "this model is an encoder-decoder: what it writes depends on another text, so a "
                "text alone has no probability; pass the source to pellucid generate --logprobs"
            )
