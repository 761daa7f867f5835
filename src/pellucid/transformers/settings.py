"""The config of our own model in `transformers`: it holds a whole `config.Transformer`."""

from __future__ import annotations

from typing import Any

from pellucid import config
from pellucid.checkpoints.huggingface import OWN_TYPE, own_architecture, own_attributes, read_own
from pellucid.transformers.library import transformers

_Base: Any = transformers.PretrainedConfig


class PellucidConfig(_Base):
    """A `config.json` with the model's own config under `transformer`.

    Args:
        transformer: the config as `pellucid.config.encode` gives it; None for an empty config,
            which describes no model yet.
        options: attributes of every config of `transformers`.
    """

    model_type = OWN_TYPE

    def __init__(self, transformer: dict[str, Any] | None = None, **options: Any) -> None:
        self.transformer = transformer
        if transformer is not None:
            options = {**own_attributes(self.model), **options}
            del options["transformer"]
        super().__init__(**options)  # pyright: ignore[reportUnknownMemberType]

    @classmethod
    def from_model(cls, model: config.Transformer, **options: Any) -> PellucidConfig:
        """The config of a model of pellucid; `options` are ids such as `bos_token_id`."""
        attributes = own_attributes(model)
        return cls(**attributes, architectures=[own_architecture(model)], **options)

    @property
    def model(self) -> config.Transformer:
        """The model's config.

        Raises:
            CheckpointError: there is none, or this version of pellucid does not know it.
        """
        return read_own({"transformer": self.transformer})
