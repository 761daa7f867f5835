"""The rows of a parameter, and of what one optimiser step makes of it."""

from __future__ import annotations

from pellucid.explain.addresses import backward, exists, forward
from pellucid.explain.addresses.row import IS_A_GRADIENT, IS_AN_UPDATE, Address
from pellucid.explain.equations import lengths, optimisers
from pellucid.explain.equations.linear import computed_weight

#: A weight by its name, and what one optimiser step makes of it.
PARAMETERS: tuple[Address, ...] = (
    Address(
        pattern="{parameter}",
        axes=("row", "column"),
        doc="any weight or buffer, by its name in the model",
        forward=forward.read_weight,
        backward=backward.parameter_gradient,
        receipt=computed_weight,
        exists=exists.has_weight,
    ),
    *(
        Address(
            pattern=f"{{parameter}}.{part}",
            axes=("row", "column"),
            doc=doc,
            forward=forward.read_update,
            backward=IS_AN_UPDATE,
            receipt=make,
        )
        for part, doc, make in (
            ("next", "the weight after one optimiser step", optimisers.next_weight),
            (
                "before_penalty",
                "the same before the proximal step of a penalty, if the run has one on the weight",
                optimisers.optimiser_weight,
            ),
            (
                "clipped_grad",
                "its gradient after clipping, if the run clips",
                optimisers.clipped_gradient,
            ),
            (
                "m",
                "the optimiser's first moment after the step, or its momentum",
                optimisers.moment,
            ),
            ("v", "its second moment after the step", optimisers.moment),
            ("look_ahead", "what Muon orthogonalises: g + μ m", optimisers.look_ahead),
            ("direction", "what Muon moves the weight along", optimisers.direction),
        )
    ),
    *(
        Address(
            pattern=f"{{parameter}}.{part}{{step}}",
            axes=("row", "column"),
            doc=doc,
            forward=forward.read_update,
            backward=IS_AN_UPDATE,
            receipt=make,
        )
        for part, doc, make in (
            ("iterate", "the matrix of Muon after so many iterations", optimisers.iterate),
            ("gram", "its product with its transpose", optimisers.gram),
        )
    ),
    *(
        Address(
            pattern=f"{{parameter}}.{part}_before",
            axes=("row", "column"),
            doc=f"{name} in the checkpoint; 0 without one",
            forward=forward.read_update,
            backward=IS_AN_UPDATE,
            receipt="it is in the run's checkpoint: nothing is computed",
        )
        for part, name in (("m", "the first moment"), ("v", "the second moment"))
    ),
    Address(
        pattern="{parameter}.grad_norm",
        axes=(),
        doc="the length of its gradient",
        forward=forward.read_parameter_length,
        backward=IS_A_GRADIENT,
        receipt=lengths.one_gradient,
    ),
)
