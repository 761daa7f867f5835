"""The table of all addresses: one row each, with its shape, its gradient and its receipt."""

from __future__ import annotations

from functools import partial

from pellucid.explain import outputs
from pellucid.explain.addresses import backward, exists, forward
from pellucid.explain.addresses.forward import of_trace
from pellucid.explain.addresses.layer_table import FAMILIES, LAYER_ADDRESSES
from pellucid.explain.addresses.loss_table import LOSS_ADDRESSES
from pellucid.explain.addresses.parameter_table import PARAMETERS
from pellucid.explain.addresses.row import (
    IS_A_GRADIENT,
    IS_AN_UPDATE,
    ONE_LOSS,
    Address,
)
from pellucid.explain.equations import entry, errors, lengths, stream
from pellucid.explain.equations import outputs as output_equations

_DERIVED = "as for every gradient"
_BEFORE_BLOCKS = "gradients before the first block are kept at `embedding`"
_AS_THERE = "as for that address"


#: Addresses of the forward pass; `trace.addresses()` lists those that a model has.
FORWARD: tuple[Address, ...] = (
    Address(
        pattern="{stack}ids",
        axes=("time",),
        doc="the ids of the tokens: all numbers are made of these and of weights",
        forward=forward.read_ids,
        backward="an id is no number that could change",
        receipt="it is what the model reads: nothing is computed",
    ),
    Address(
        pattern="{stack}token_embedding",
        axes=("time", "d_embedding"),
        doc="a token's row of the table",
        forward=forward.read_token_embedding,
        backward="the gradient is kept after the scale: see `embedding`",
        receipt=entry.token_embedding,
    ),
    Address(
        pattern="{stack}embedding",
        axes=("time", "d_embedding"),
        doc="the same scaled, with the vector of its kind of text",
        forward=forward.read_embedding,
        backward=backward.embedding_gradient,
        receipt=entry.embedding,
    ),
    Address(
        pattern="{stack}positions",
        axes=("time", "d_positions"),
        doc="what positions add to the embedding",
        forward=forward.read_positions,
        backward="it is added, so its gradient is the one of `embedding`",
        receipt=entry.positions,
        exists=exists.adds_positions,
    ),
    *(
        Address(
            pattern=f"{{stack}}{part}",
            axes=("time", "d_entry"),
            doc=doc,
            forward=forward.read_entry,
            backward=_BEFORE_BLOCKS,
            receipt=make,
            exists=exists.entry_part_exists,
        )
        for part, doc, make in (
            (
                "input_projection.in",
                "what the map of the embedding to d_model reads, if the model has one",
                entry.entering,
            ),
            ("input_projection", "the embedding, mapped to d_model", entry.input_projection),
            ("input_norm.in", "what the norm before the first block reads", entry.entering),
            ("input_norm", "the norm before the first block", entry.input_norm),
        )
    ),
    *LAYER_ADDRESSES,
    Address(
        pattern="{stack}final_norm",
        axes=("time", "d_model"),
        doc="after the final norm",
        forward=forward.read_final_norm,
        backward=backward.end_gradient,
        receipt=stream.final_norm,
    ),
    *(
        Address(
            pattern=part,
            axes=("d_classes",),
            doc=doc,
            forward=of_trace(partial(outputs.read_class_part, name=part)),
            backward=backward.end_gradient,
            receipt=make,
            exists=exists.has_class_part,
        )
        for part, doc, make in (
            (
                "pooler",
                "the dense layer on the first state, before its tanh",
                output_equations.pooler,
            ),
            (
                "classifier_transform.dense",
                "the dense layer before the classes",
                output_equations.classifier_dense,
            ),
            ("class_state", "what the matrix of the classes reads", output_equations.class_state),
        )
    ),
    Address(
        pattern="class_logits",
        axes=("classes",),
        doc="the logits of a classifier",
        forward=of_trace(outputs.read_class_logits),
        backward=backward.end_gradient,
        receipt=output_equations.class_logits,
        exists=exists.has_classes,
    ),
    Address(
        pattern="class_probabilities",
        axes=("classes",),
        doc="their softmax",
        forward=of_trace(outputs.read_class_probabilities),
        backward=ONE_LOSS,
        receipt=output_equations.class_probabilities,
        exists=exists.has_classes,
    ),
    Address(
        pattern="head_transform.dense",
        axes=("time", "d_head_input"),
        doc="the dense layer of the head's own transform, if it has one",
        forward=of_trace(outputs.read_head_dense),
        backward=backward.end_gradient,
        receipt=output_equations.head_dense,
        exists=exists.has_dense,
    ),
    Address(
        pattern="hidden",
        axes=("time", "d_head_input"),
        doc="the state as the output head reads it",
        forward=of_trace(outputs.read_hidden),
        backward=backward.end_gradient,
        receipt=output_equations.hidden,
        exists=exists.has_head,
    ),
    Address(
        pattern="logits",
        axes=("time", "vocabulary"),
        doc="over the vocabulary",
        forward=of_trace(outputs.read_logits),
        backward=backward.end_gradient,
        receipt=output_equations.logits,
        exists=exists.has_head,
    ),
    Address(
        pattern="probabilities",
        axes=("time", "vocabulary"),
        doc="their softmax",
        forward=of_trace(outputs.read_probabilities),
        backward=ONE_LOSS,
        receipt=output_equations.probabilities,
        exists=exists.has_head,
    ),
    *LOSS_ADDRESSES,
)

#: More addresses of the backward pass than `ADDRESS.grad`; `back.addresses()` lists them.
BACKWARD: tuple[Address, ...] = (
    Address(
        pattern="grad_norm",
        axes=(),
        doc="the norm of all gradients together",
        forward=of_trace(forward.read_grad_norm),
        backward=IS_A_GRADIENT,
        receipt=lengths.all_gradients,
    ),
    Address(
        pattern="error",
        axes=("places", "outputs"),
        doc="the gradient of each term of the loss by its logits, which is p - y of a plain loss; "
        "in a plain text row t is of token t + 1",
        forward=of_trace(outputs.read_error),
        backward=IS_A_GRADIENT,
        receipt=errors.error,
        exists=exists.has_loss,
    ),
    *(
        Address(
            pattern=f"token_embedding.weight.grad.{path}",
            axes=("vocabulary", "d_embedding"),
            doc=f"the gradient of a tied table as the {path} alone",
            forward=forward.read_tied_path,
            backward=IS_A_GRADIENT,
            receipt=_DERIVED,
            exists=exists.is_tied,
        )
        for path in ("head", "input")
    ),
    Address(
        pattern="loss.grad",
        axes=(),
        doc="1: every gradient is the loss's",
        forward=of_trace(forward.read_loss_gradient),
        backward=IS_A_GRADIENT,
        receipt="it is 1: every gradient is of this loss",
        exists=exists.has_loss,
    ),
)


ADDRESSES: tuple[Address, ...] = (
    *FORWARD,
    *BACKWARD,
    *PARAMETERS,
    Address(
        pattern="other.{address}",
        axes=("as that address",),
        doc="any address of the other answer of a preference",
        forward=forward.read_companion,
        backward=_AS_THERE,
        receipt=_AS_THERE,
    ),
    Address(
        pattern="after_update.{address}",
        axes=("as that address",),
        doc="any address, after one optimiser step of all weights of a copy",
        forward=forward.read_after_update,
        backward=IS_AN_UPDATE,
        receipt=_AS_THERE,
    ),
)

_HEADINGS = ("address", "what it is", "shape", "gradient", "receipt")


def format_addresses() -> str:
    """The table of docs/explain.md: a row for each address, and a line for each family."""
    rows = [
        (
            f"`{row.pattern}`",
            row.doc,
            ", ".join(row.axes) or "one number",
            row.backward if isinstance(row.backward, str) else "yes",
            row.receipt if isinstance(row.receipt, str) else "yes",
        )
        for row in ADDRESSES
    ]
    lines = [f"| {' | '.join(cells)} |" for cells in (_HEADINGS, ("---",) * 5, *rows)]
    families = [f"- `{{{name}}}`: {_list(parts)}" for name, parts in FAMILIES.items()]
    return "\n".join([*lines, "", *families])


def _list(parts: tuple[str, ...]) -> str:
    return ", ".join(f"`{part}`" for part in parts)
