"""The rows of the loss and of what it is made of."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from pellucid.explain import outputs
from pellucid.explain.addresses import exists
from pellucid.explain.addresses.forward import of_trace
from pellucid.explain.addresses.row import ONE_LOSS, Address, MakeEquation
from pellucid.explain.addresses.site import Site
from pellucid.explain.equations import loss_terms, losses
from pellucid.explain.trace_types import Trace

_OF_PLACES = ("places",)
_OF_WORDS = ("places", "vocabulary")


def _row(
    pattern: str,
    axes: tuple[str, ...],
    doc: str,
    read: Callable[[Trace], Tensor],
    receipt: MakeEquation | str,
    is_there: Callable[[Trace, Site], bool],
) -> Address:
    return Address(
        pattern=pattern,
        axes=axes,
        doc=doc,
        forward=of_trace(read),
        backward=ONE_LOSS,
        receipt=receipt,
        exists=is_there,
    )


LOSS_ADDRESSES: tuple[Address, ...] = (
    _row(
        "surprisal",
        _OF_PLACES,
        "-log p of each token that counts in the loss, in nats; in a plain text row t is of "
        "token t + 1",
        outputs.read_surprisal,
        loss_terms.surprisal,
        exists.has_token_losses,
    ),
    _row(
        "log_p",
        _OF_PLACES,
        "log π of each token of a sampled answer, at its temperature",
        outputs.read_log_p,
        loss_terms.log_p,
        exists.has_log_p,
    ),
    _row(
        "log_z",
        _OF_PLACES,
        "log Σ exp(z) at each place that counts, if the loss reads it",
        outputs.read_log_z,
        loss_terms.log_z,
        exists.has_log_z,
    ),
    _row(
        "entropy",
        _OF_PLACES,
        "the entropy of each prediction that counts, if the loss has a bonus for it",
        outputs.read_entropy,
        loss_terms.entropy,
        exists.has_entropy,
    ),
    _row(
        "teacher_logits",
        _OF_WORDS,
        "the teacher's logits at the places that count, in a distillation",
        outputs.read_teacher_logits,
        "another model computes it: the teacher",
        exists.has_teacher,
    ),
    _row(
        "teacher_log_ps",
        _OF_WORDS,
        "the teacher's log p of every word, at the temperature of the distillation",
        outputs.read_teacher_log_ps,
        loss_terms.tempered_log_ps,
        exists.has_teacher,
    ),
    _row(
        "student_log_ps",
        _OF_WORDS,
        "the student's log p of every word, at the same temperature",
        outputs.read_student_log_ps,
        loss_terms.tempered_log_ps,
        exists.has_teacher,
    ),
    _row(
        "divergence",
        _OF_PLACES,
        "how far the student's prediction is from the teacher's, both at the temperature",
        outputs.read_divergence,
        loss_terms.divergence,
        exists.has_teacher,
    ),
    _row(
        "reference_log_ps",
        _OF_PLACES,
        "log p of each token of an answer under the reference",
        outputs.read_reference_log_ps,
        "another model computes it: the reference",
        exists.has_reference,
    ),
    _row(
        "margin",
        (),
        "what the chosen answer gained on the reference more than the rejected one, times beta",
        outputs.read_margin,
        loss_terms.margin,
        exists.has_margin,
    ),
    Address(
        pattern="loss",
        axes=(),
        doc="the loss of the text or example, as the run's objective counts it",
        forward=of_trace(outputs.read_loss),
        backward="it is 1: every gradient is the loss's",
        receipt=losses.loss,
        exists=exists.has_loss,
    ),
)
