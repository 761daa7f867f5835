"""The config of our own model in `transformers`: it holds a whole `config.Transformer`."""

from __future__ import annotations

from typing import Any, cast

from pellucid import config
from pellucid.checkpoints.huggingface import OWN, own_architecture, own_attributes, read_own
from pellucid.transformers.library import transformers

_Base: Any = transformers.PretrainedConfig


class PellucidConfig(_Base):
    """A `config.json` with the model's own config under `transformer`.

    Args:
        transformer: the config as `pellucid.config.encode` gives it; None for an empty config,
            which describes no model yet.
        more: attributes of every config of `transformers`.
    """

    model_type = OWN

    def __init__(self, transformer: dict[str, Any] | None = None, **more: Any) -> None:
        self.transformer = transformer
        if transformer is not None:
            more = {**own_attributes(self.model), **more}
            del more["transformer"]
        cast("Any", super()).__init__(**more)

    @classmethod
    def of(cls, model: config.Transformer, **more: Any) -> PellucidConfig:
        """The config of a model of pellucid; `more` are ids such as `bos_token_id`."""
        described = own_attributes(model)
        return cls(**described, architectures=[own_architecture(model)], **more)

    @property
    def model(self) -> config.Transformer:
        """The model's config.

        Raises:
            CheckpointError: there is none, or this version of pellucid does not know it.
        """
        return read_own({"transformer": self.transformer})
