"""What an architecture of llama.cpp lacks of a stack, as words; "" if nothing.

Source:
    llama.cpp, src/models: the tensors that each architecture loads, and its graph.
"""

from __future__ import annotations

from pellucid import config
from pellucid.exports.gguf.layers import windows_of


def rotates_without_its_window(stack: config.Stack) -> str:
    """EXAONE 4: only in the depth of the 32B model layers have windows, and alone rotate."""
    has_windows = [window is not None for window in windows_of(stack)]
    if stack.n_layers != 64:
        return "windows in a model of other than 64 layers" if any(has_windows) else ""
    rotates = [isinstance(layer.positions, config.Rotary) for layer in stack.layers]
    return "" if rotates == has_windows else "rotary positions in layers without a window"


def head_norms_by_depth(stack: config.Stack) -> str:
    """Command R: norms of queries and keys from 64 layers on."""
    attention = stack.layers[0].attention
    has_norms = isinstance(attention, config.MultiHead) and attention.qk_norm is not None
    if has_norms == (stack.n_layers >= 64):
        return ""
    return f"{stack.n_layers} layers {'with' if has_norms else 'without'} norms of queries and keys"


def norms_of_queries(stack: config.Stack) -> str:
    """Norms of queries and keys, which the architecture does not load."""
    attention = stack.layers[0].attention
    has_norms = isinstance(attention, config.MultiHead) and attention.qk_norm is not None
    return "norms of queries and keys" if has_norms else ""


def query_latents_by_depth(stack: config.Stack) -> str:
    """DeepSeek: in the depth of the Lite models queries have no latent."""
    attention = stack.layers[0].attention
    has_latent = isinstance(attention, config.LatentAttention) and attention.d_query_latent
    return (
        f"latents of queries in {stack.n_layers} layers"
        if has_latent and stack.n_layers in (26, 27, 48)
        else ""
    )


def other_slopes(stack: config.Stack) -> str:
    """Slopes of ALiBi that the model rounds or scales."""
    positions = stack.layers[0].positions
    plain = isinstance(positions, config.ALiBi) and not (positions.scaled or positions.rounded)
    return "" if plain else "positions other than plain ALiBi"


def bloom_slopes(stack: config.Stack) -> str:
    """Slopes of ALiBi that end at another exponent than BLOOM's, or are rounded or scaled."""
    positions = stack.layers[0].positions
    if isinstance(positions, config.ALiBi) and positions.max_exponent != 8:
        return f"ALiBi with max_exponent {positions.max_exponent:g}"
    return other_slopes(stack)


def not_parallel(stack: config.Stack) -> str:
    """A residual rule other than attention beside feed-forward."""
    return "" if isinstance(stack.residual, config.Parallel) else "a residual that is not Parallel"
