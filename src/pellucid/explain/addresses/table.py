"""The table of all addresses: one row each, with its shape, its gradient and its receipt."""

from __future__ import annotations

from pellucid.explain import outputs
from pellucid.explain.addresses import backward, forward, receipts, shapes
from pellucid.explain.addresses.forward import of_trace
from pellucid.explain.addresses.layer_table import FAMILIES, LAYER_ADDRESSES
from pellucid.explain.addresses.row import Address
from pellucid.explain.receipts import embedding_receipt, gradient_lengths
from pellucid.explain.receipts import errors as error_receipts
from pellucid.explain.receipts import gradients as gradient_receipts
from pellucid.explain.receipts import losses as loss_receipts
from pellucid.explain.receipts import outputs as output_receipts

_ONE_LOSS = "its gradient is fixed by the loss, and no layer has to be run for it"
_IS_A_GRADIENT = "it is a gradient itself"
_BEFORE_BLOCKS = "gradients before the first block are kept at `embedding`"
_IS_AN_UPDATE = "the step is not differentiated"

#: Addresses of the forward pass; `trace.addresses()` lists those that a model has.
FORWARD: tuple[Address, ...] = (
    Address(
        pattern="{stack}token_embedding",
        axes=("time", "d_embedding"),
        doc="a token's row of the table",
        forward=forward.read_token_embedding,
        backward="the gradient is kept after the scale: see `embedding`",
        receipt="it is a row of the table: nothing is computed",
    ),
    Address(
        pattern="{stack}embedding",
        axes=("time", "d_embedding"),
        doc="the same scaled, with the vector of its kind of text",
        forward=forward.read_embedding,
        backward=backward.embedding_gradient,
        receipt=receipts.by_selection(embedding_receipt),
    ),
    Address(
        pattern="{stack}positions",
        axes=("time", "d_positions"),
        doc="what positions add to the embedding",
        forward=forward.read_positions,
        backward="it is added, so its gradient is the one of `embedding`",
        receipt="it is read from a table",
        exists=shapes.adds_positions,
    ),
    Address(
        pattern="{stack}input_projection.in",
        axes=("time", "d_embedding"),
        doc="what the map of the embedding to d_model reads, if the model has one",
        forward=forward.read_unprojected,
        backward=_BEFORE_BLOCKS,
        receipt="it is `embedding`, with positions and the norm of the input if these come first",
        exists=shapes.has_projection,
    ),
    Address(
        pattern="{stack}input_projection",
        axes=("time", "d_model"),
        doc="the embedding, mapped to d_model",
        forward=forward.read_projected,
        backward=_BEFORE_BLOCKS,
        receipt=receipts.input_projection,
        exists=shapes.has_projection,
    ),
    *LAYER_ADDRESSES,
    Address(
        pattern="{stack}final_norm",
        axes=("time", "d_model"),
        doc="after the final norm",
        forward=forward.read_final_norm,
        backward=backward.end_gradient,
        receipt=receipts.final_norm,
    ),
    Address(
        pattern="class_logits",
        axes=("classes",),
        doc="the logits of a classifier",
        forward=of_trace(outputs.read_class_logits),
        backward=backward.end_gradient,
        receipt="the state that the classifier reads is not kept",
        exists=shapes.has_classes,
    ),
    Address(
        pattern="class_probabilities",
        axes=("classes",),
        doc="their softmax",
        forward=of_trace(outputs.read_class_probabilities),
        backward=_ONE_LOSS,
        receipt="it is the softmax of `class_logits`",
        exists=shapes.has_classes,
    ),
    Address(
        pattern="hidden",
        axes=("time", "d_head_input"),
        doc="the state as the output head reads it",
        forward=of_trace(outputs.read_hidden),
        backward=backward.end_gradient,
        receipt="it is `final_norm`, or what the head's own transform makes of it",
        exists=shapes.has_head,
    ),
    Address(
        pattern="logits",
        axes=("time", "vocabulary"),
        doc="over the vocabulary",
        forward=of_trace(outputs.read_logits),
        backward=backward.end_gradient,
        receipt=receipts.by_index(output_receipts.logit_receipt),
        exists=shapes.has_head,
    ),
    Address(
        pattern="probabilities",
        axes=("time", "vocabulary"),
        doc="their softmax",
        forward=of_trace(outputs.read_probabilities),
        backward=_ONE_LOSS,
        receipt=receipts.by_index(output_receipts.probability_receipt),
        exists=shapes.has_head,
    ),
    Address(
        pattern="surprisal",
        axes=("places",),
        doc="-log p of each token that counts in the loss, in nats; in a plain text row t is of "
        "token t + 1",
        forward=of_trace(outputs.read_surprisal),
        backward=_ONE_LOSS,
        receipt=receipts.by_index(loss_receipts.surprisal_receipt),
        exists=shapes.has_token_losses,
    ),
    Address(
        pattern="loss",
        axes=(),
        doc="the loss of the text or example, as the run's objective counts it",
        forward=of_trace(outputs.read_loss),
        backward="it is 1: every gradient is the loss's",
        receipt=receipts.by_index(loss_receipts.loss_receipt),
        exists=shapes.has_loss,
    ),
)

#: More addresses of the backward pass than `ADDRESS.grad`; `back.addresses()` lists them.
BACKWARD: tuple[Address, ...] = (
    Address(
        pattern="grad_norm",
        axes=(),
        doc="the norm of all gradients together",
        forward=of_trace(forward.read_grad_norm),
        backward=_IS_A_GRADIENT,
        receipt=receipts.by_index(gradient_lengths.norm_receipt_of_all),
    ),
    Address(
        pattern="error",
        axes=("places", "outputs"),
        doc="the gradient of each term of the loss by its logits, which is p - y of a plain loss; "
        "in a plain text row t is of token t + 1",
        forward=of_trace(outputs.read_error),
        backward=_IS_A_GRADIENT,
        receipt=receipts.by_index(error_receipts.error_receipt),
        exists=shapes.has_loss,
    ),
    *(
        Address(
            pattern=f"token_embedding.weight.grad.{path}",
            axes=("vocabulary", "d_embedding"),
            doc=f"the gradient of a tied table as the {path} alone",
            forward=forward.read_tied_path,
            backward=_IS_A_GRADIENT,
            receipt=receipts.by_index(make),
            exists=shapes.is_tied,
        )
        for path, make in (
            ("head", gradient_receipts.head_receipt),
            ("input", gradient_receipts.input_receipt),
        )
    ),
)

#: A weight by its name, and what one optimiser step makes of it.
PARAMETERS: tuple[Address, ...] = (
    Address(
        pattern="{parameter}",
        axes=("row", "column"),
        doc="any weight or buffer, by its name in the model",
        forward=forward.read_weight,
        backward=backward.parameter_gradient,
        receipt="it is learned: nothing is computed",
        exists=shapes.has_weight,
    ),
    *(
        Address(
            pattern=f"{{parameter}}.{part}",
            axes=("row", "column"),
            doc=doc,
            forward=forward.read_update,
            backward=_IS_AN_UPDATE,
            receipt=receipts.update,
        )
        for part, doc in (
            ("next", "the weight after one optimiser step"),
            ("m", "the optimiser's first moment after the step"),
            ("v", "its second moment after the step"),
            ("direction", "what Muon moves the weight along"),
        )
    ),
)

ADDRESSES: tuple[Address, ...] = (
    *FORWARD,
    *BACKWARD,
    *PARAMETERS,
    Address(
        pattern="after_update.{address}",
        axes=("as that address",),
        doc="any address, after one optimiser step of all weights of a copy",
        forward=forward.read_after_update,
        backward=_IS_AN_UPDATE,
        receipt="open the chapter after-update: it shows the receipts of the copy",
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
