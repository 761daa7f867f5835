"""The addresses within a head: queries, keys, scores, weights, and what a memory has."""

from __future__ import annotations

from functools import partial

from pellucid.explain.addresses import backward, exists, forward
from pellucid.explain.addresses.row import Address
from pellucid.explain.equations import attention, distances, heads, memory

_OF_DISTANCES = "the gradient is not kept: see the parameters of the positions"
_OF_MEMORY = "the gradient is not kept: a memory has no softmax whose rule could be shown"

_head_row = partial(
    Address,
    forward=forward.read_head_part,
    backward=backward.head_part_gradient,
    has_gradient=exists.has_scores,
)

HEAD_ADDRESSES: tuple[Address, ...] = (
    *(
        _head_row(
            pattern=f"{{layer}}.{{head}}.{part}",
            axes=("query" if part == "q" else "key", "d_head"),
            doc=f"the {name} of a head as the scores use it, after norms and rotation",
            receipt=heads.query_or_key,
        )
        for part, name in (("q", "query"), ("k", "key"))
    ),
    *(
        _head_row(
            pattern=f"{{layer}}.{{head}}.{part}_plain",
            axes=("query" if part == "q" else "key", "d_head"),
            doc=f"the {name} before rotation",
            receipt=heads.plain_query_or_key,
            exists=exists.rotates,
        )
        for part, name in (("q", "query"), ("k", "key"))
    ),
    *(
        _head_row(
            pattern=f"{{layer}}.{{head}}.{part}_turned",
            axes=("query" if part == "q" else "key", "d_head"),
            doc=f"the {name} after rotation, before the norm that follows in some models",
            receipt=heads.turned_query_or_key,
            exists=exists.turns_before_norm,
        )
        for part, name in (("q", "query"), ("k", "key"))
    ),
    *(
        _head_row(
            pattern=f"{{layer}}.{{head}}.distance_{part}",
            axes=("row", "d_head"),
            doc=f"the {part} of the rows of distances",
            backward=_OF_DISTANCES,
            receipt=distances.of_distances,
            exists=exists.has_distance_vectors,
        )
        for part in ("keys", "queries")
    ),
    _head_row(
        pattern="{layer}.{head}.v",
        axes=("key", "d_value"),
        doc="the value of a head",
        receipt=heads.value,
    ),
    _head_row(
        pattern="{layer}.{head}.scores",
        axes=("query", "key"),
        doc="cap(scale q k) + bias as the model adds it, **before** the mask",
        backward=backward.square_gradient,
        receipt=attention.score,
        exists=exists.has_scores,
        has_gradient=exists.has_softmax_gradient,
    ),
    _head_row(
        pattern="{layer}.{head}.bias",
        axes=("query", "key"),
        doc="what positions add to the scores (ALiBi, buckets, relative vectors)",
        backward="it is added, so its gradient is the one of `{layer}.{head}.scores`",
        receipt=attention.bias,
        exists=exists.has_bias,
    ),
    _head_row(
        pattern="{layer}.{head}.mask",
        axes=("query", "key"),
        doc="true where the query sees the key; windows included",
        backward="a mask is true or false, and has no gradient",
        receipt=attention.mask,
    ),
    _head_row(
        pattern="{layer}.{head}.weights",
        axes=("query", "key"),
        doc="after mask and softmax, without the share of a sink",
        backward=backward.square_gradient,
        receipt=attention.weight,
        has_gradient=exists.has_softmax_gradient,
    ),
    _head_row(
        pattern="{layer}.{head}.out",
        axes=("query", "d_value"),
        doc="the head's output, before the output projection",
        receipt=attention.output,
    ),
    _head_row(
        pattern="{layer}.{head}.memory",
        axes=("query", "d_value"),
        doc="what a layer with a memory reads from it",
        backward=_OF_MEMORY,
        receipt=memory.memory,
        exists=exists.has_memory,
    ),
    _head_row(
        pattern="{layer}.{head}.memory_read",
        axes=("query", "d_value"),
        doc="what a token reads from the memory, before the memory's norm",
        backward=_OF_MEMORY,
        receipt=memory.read,
        exists=exists.has_memory,
    ),
    *(
        _head_row(
            pattern=f"{{layer}}.{{head}}.{part}",
            axes=("query", "d_value", "d_head"),
            doc=f"{name} after each token; computed token by token for the trace",
            backward=_OF_MEMORY,
            receipt=make,
            exists=exists.has_memory_steps,
        )
        for part, name, make in (
            ("memory_state", "the memory", memory.state),
            ("memory_momentum", "the momentum of the memory", memory.momentum),
        )
    ),
    _head_row(
        pattern="{layer}.{head}.gate",
        axes=("query",),
        doc="the share of the memory in the head's output",
        backward="the gradient is not kept: see `{layer}.{head}.out`",
        receipt=memory.gate,
        exists=exists.has_memory,
    ),
    _head_row(
        pattern="{layer}.{head}.output_gate",
        axes=("query", "d_value"),
        doc="the factor of the head's output, between 0 and 1",
        backward="the gradient is not kept: see `{layer}.attention.output_gate`",
        receipt=attention.output_gate,
        exists=exists.has_output_gate,
    ),
)
