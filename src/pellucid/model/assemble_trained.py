"""The door from a choice of what is trained to a model of which that is trained.

Comes in: a built model and `config.Trained`. Goes out: the same model, adapted. With `assemble` and
`assemble_parts`, the only files of this room that read a config.
"""

from __future__ import annotations

from typing import assert_never

from pellucid import config
from pellucid.model.trainable import add_lora, train_last_layers
from pellucid.model.transformer import Transformer


def assemble_trained(model: Transformer, trained: config.Trained | None, *, seed: int) -> None:
    """Leave trainable what `trained` says, in place; all of it where that is None.

    What is new starts from `seed`; on the meta device it is not drawn. A published model is filled
    before, a checkpoint of an adapted one after.

    Raises:
        ConfigError: it does not fit this model.
    """
    match trained:
        case None:
            return
        case config.LastLayers(count=count):
            train_last_layers(model, count)
        case config.LoRA():
            add_lora(
                model,
                rank=trained.rank,
                alpha=trained.alpha,
                dropout=trained.dropout,
                targets=trained.targets,
                seed=seed,
            )
        case _:
            assert_never(trained)
