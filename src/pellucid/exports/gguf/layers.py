"""What the layers of a stack have in common, and what differs between them."""

from __future__ import annotations

from pellucid import config


def last_stack(model: config.Transformer) -> tuple[str, config.Stack]:
    """The decoder, or else the encoder, with its name."""
    stack = model.decoder or model.encoder
    assert stack is not None  # config refuses a model of neither
    return ("encoder" if model.decoder is None else "decoder"), stack


def named_stacks(model: config.Transformer) -> dict[str, config.Stack]:
    """The stacks of a model by their names."""
    stacks = {"encoder": model.encoder, "decoder": model.decoder}
    return {name: stack for name, stack in stacks.items() if stack is not None}


def windows_of(stack: config.Stack) -> list[int | None]:
    """The window of each layer; None for a layer that sees all."""
    attentions = [layer.attention for layer in stack.layers]
    return [kind.window if isinstance(kind, config.MultiHead) else None for kind in attentions]


def rotary_of(stack: config.Stack, *, windowed: bool | None = None) -> config.Rotary | None:
    """The rotary positions of the first layer that has them; None if no layer does.

    Args:
        stack: the stack.
        windowed: look at layers with a window, or at the others; None for the others, and if none
            of them rotates, for those with a window.
    """
    if windowed is None:
        return rotary_of(stack, windowed=False) or rotary_of(stack, windowed=True)
    for layer, window in zip(stack.layers, windows_of(stack), strict=True):
        if (window is not None) == windowed and isinstance(layer.positions, config.Rotary):
            return layer.positions
    return None


def mixture_of(stack: config.Stack) -> config.Experts | None:
    """The first mixture of experts of a stack; None if it has none."""
    kinds = (layer.feed_forward for layer in stack.layers)
    return next((kind for kind in kinds if isinstance(kind, config.Experts)), None)


def dense_of(stack: config.Stack) -> config.DenseFeedForward | None:
    """The first feed-forward that is the same for all tokens; None if there is none."""
    kinds = (layer.feed_forward for layer in stack.layers)
    return next((kind for kind in kinds if not isinstance(kind, config.Experts)), None)


def n_leading_dense(stack: config.Stack) -> int:
    """How many dense layers come before the first mixture of experts."""
    kinds = [isinstance(layer.feed_forward, config.Experts) for layer in stack.layers]
    return kinds.index(True) if True in kinds else len(kinds)
