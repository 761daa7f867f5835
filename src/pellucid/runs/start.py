"""The body of one model as the beginning of another, whatever head each has.

Comes in: a model with weights of its own, and tensors of another. Goes out: the same model with the
other's body, and the names of what is new in it. It does not know where the tensors come from.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from pellucid.errors import CheckpointError
from pellucid.model import Transformer

#: What stands on the last states: another task has another.
_HEADS = ("head.", "head_transform.", "head_bias", "classifier.", "pooler.")


def fill_body(
    model: Transformer, tensors: Mapping[str, Tensor], device: torch.device
) -> tuple[str, ...]:
    """Give a model the weights that it shares with another; what is new keeps its own.

    Of the head and the pooler, tensors may be missing, left over or of another shape; the rest has
    to be there and to fit. Gives back the names of what is new.

    Raises:
        CheckpointError: the bodies differ; says in which tensors. Or the model has no weights.
    """
    wanted = model.state_dict()
    fits = {
        name: tensors[name]
        for name, tensor in wanted.items()
        if name in tensors and tensors[name].shape == tensor.shape
    }
    if wrong := [
        said
        for name in dict.fromkeys((*wanted, *tensors))
        if name not in fits and not name.startswith(_HEADS)
        for said in [_difference(name, wanted.get(name), tensors.get(name))]
    ]:
        more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise CheckpointError(
            "the model to start from has another body than this one: "
            f"{'; '.join(wrong[:3])}{more}; take its config, all but the head"
        )
    new = tuple(name for name in wanted if name not in fits)
    if new and model.device.type == "meta":
        raise CheckpointError(
            f"{new[0]} is not in the model to start from, and was not drawn: build the model with "
            "weights of its own first"
        )
    model.load_state_dict(fits, strict=False, assign=model.device.type == "meta")
    model.to(device)
    return new


def _difference(name: str, here: Tensor | None, there: Tensor | None) -> str:
    if there is None:
        return f"it has no {name}"
    if here is None:
        return f"it has {name}, which this one has not"
    return f"{name} is {tuple(there.shape)} there and {tuple(here.shape)} here"
