"""Which dropout runs while a model is called: random numbers may also be drawn by design."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode

#: torch's functions that drop features, by a part of their names.
_DROPOUT = "dropout"
#: Where fused attention says how much it drops.
_OF_ATTENTION = "dropout_p"


class DropoutCalls(TorchFunctionMode):
    """Notes the largest share that one of torch's functions drops, while it is entered.

    A model that samples, such as a VAE, draws other numbers; so does dropout by hand.
    """

    def __init__(self) -> None:
        super().__init__()
        #: the largest share, 0 if nothing is dropped
        self.share = 0.0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.share = max(self.share, _dropped_share(func, args, kwargs))
        return func(*args, **kwargs)


def _dropped_share(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
    """The share that a call drops: 0 of a function that drops nothing, or not now."""
    name = getattr(func, "__name__", "")
    if name == "scaled_dot_product_attention":
        share = kwargs.get(_OF_ATTENTION, args[4] if len(args) > 4 else 0.0)
    elif _DROPOUT in name and kwargs.get("training", args[2] if len(args) > 2 else False):
        share = kwargs.get("p", args[1] if len(args) > 1 else 0.5)  # F.dropout drops a half
    else:
        share = 0.0
    return float(share) if isinstance(share, int | float) else 0.0
