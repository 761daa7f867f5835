"""The common part of our classes in `transformers`: weights, masks, losses."""

from __future__ import annotations

from typing import Any, assert_never

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.errors import PellucidError
from pellucid.model import Positions, Transformer, assemble
from pellucid.model.facts import (
    AddedPositionFacts,
    DisentangledFacts,
    DistanceBiasFacts,
    DistanceVectorFacts,
    NoPositionFacts,
    RotaryFacts,
    UnknownFacts,
    position_facts,
)
from pellucid.transformers.library import transformers
from pellucid.transformers.settings import PellucidConfig

_Base: Any = transformers.PreTrainedModel


class PellucidBase(_Base):
    """The common part: the model is built from its own config, and weights go in as usual."""

    config_class = PellucidConfig
    base_model_prefix = "model"
    _no_split_modules = ("Block", "ParallelBlock")
    # these choose between kernels, and our model chooses its own
    _supports_sdpa = True
    _supports_flash_attn = False

    def __init__(self, config: PellucidConfig) -> None:
        super().__init__(config)  # pyright: ignore[reportUnknownMemberType]
        seed = int(torch.randint(2**62, (), device="cpu"))
        self.model: Transformer = assemble(config.model, seed=seed)
        if self.model.device.type != "meta":
            for tensor in (*self.model.parameters(), *self.model.buffers()):
                _mark_filled(tensor)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Fill all that no file had: constants such as angles, and weights such as a new head."""
        by_name = (*self.model.named_parameters(), *self.model.named_buffers())
        empty = [(name, tensor) for name, tensor in by_name if not _is_filled(tensor)]
        if not empty:
            return
        with torch.device("cpu"):
            fresh = assemble(self.config.model, seed=0)
        tensors = {**dict(fresh.named_parameters()), **dict(fresh.named_buffers())}
        for name, tensor in empty:
            tensor.data.copy_(tensors[name])
            _mark_filled(tensor)

    def get_input_embeddings(self) -> nn.Module:
        """The embedding of tokens."""
        return self.model.token_embedding

    def get_output_embeddings(self) -> nn.Module | None:
        """The head's matrix; None if it is the embedding."""
        return self.model.head

    def resize_token_embeddings(self, *_: Any, **__: Any) -> nn.Module:
        """Refuse: the size of the vocabulary is part of the model's own config.

        Raises:
            PellucidError: always.
        """
        raise PellucidError(
            "a model of pellucid keeps its vocabulary: train one with --set model.vocab_size=N, or "
            "with a tokenizer that has the new tokens"
        )


def _is_filled(tensor: Any) -> bool:
    return getattr(tensor, "_is_hf_initialized", False)


def _mark_filled(tensor: Any) -> None:
    """As `transformers` marks what needs no first weights any more."""
    tensor._is_hf_initialized = True


def decoder_padding(model: Transformer, attention_mask: Tensor | None) -> Tensor | None:
    """The mask of real tokens; None if all are.

    Args:
        model: the model.
        attention_mask: (batch, keys), 1 for real tokens.

    Raises:
        PellucidError: padding in front of tokens, in a model that counts positions from the start.
    """
    padding = real_tokens(attention_mask)
    absolute = _counts_from_the_start(model)
    if padding is not None and absolute and not bool(padding[:, 0].all()):
        raise PellucidError(
            "this model counts positions from the start of a row, so padding in front of a text "
            'changes them: pad on the right (padding_side="right"), or pass one text at a time'
        )
    return padding


def _counts_from_the_start(model: Transformer) -> bool:
    stack = model.stack
    schemes = (stack.positions.for_layer(layer) for layer in range(len(stack.blocks)))
    return any(map(_is_added, schemes))


def _is_added(scheme: Positions) -> bool:
    facts = position_facts(scheme)
    match facts:
        case AddedPositionFacts():
            return True
        case (
            NoPositionFacts()
            | RotaryFacts()
            | DistanceBiasFacts()
            | DistanceVectorFacts()
            | DisentangledFacts()
            | UnknownFacts()
        ):
            return False
        case _:
            assert_never(facts)


def real_tokens(attention_mask: Tensor | None) -> Tensor | None:
    """(batch, keys), True where a token is real; None if all are."""
    if attention_mask is None:
        return None
    real = attention_mask.bool()
    return None if bool(real.all()) else real


def last_states(states: Tensor, keep: int | Tensor) -> Tensor:
    """The states whose logits are needed."""
    if isinstance(keep, int):
        return states[:, -keep:] if keep else states
    return states[:, keep]


def token_loss(logits: Tensor, labels: Tensor | None) -> Tensor | None:
    """The mean cross entropy over labels that are not -100."""
    if labels is None:
        return None
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def in_form(output: Any, settings: Any, return_dict: bool | None) -> Any:
    """An output as it is, or as a tuple.

    Args:
        output: of a model.
        settings: the config, which decides if `return_dict` is None.
        return_dict: False for a tuple.
    """
    wants_names = settings.return_dict if return_dict is None else return_dict
    return output if wants_names else output.to_tuple()
