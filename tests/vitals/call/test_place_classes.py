"""Classes of tokens: what tokens tell of them, and classes that were not spread over words."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.batches import IGNORED
from pellucid.vitals.call import place_classes
from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.paid_targets import PaidTargets, paid_targets
from pellucid.vitals.taps.recorded_call import Call

ROWS, TIME, CLASSES = 12, 24, 3
DRAWS = torch.Generator().manual_seed(4)
IDS = torch.randint(10, 60, (ROWS, TIME), generator=DRAWS)
IDS[:, 0], IDS[:, -1] = 1, 2
MASK = torch.ones_like(IDS)


def measure(classes: Tensor, ids: Tensor = IDS) -> dict[str, float]:
    call = Call((), {"input_ids": ids[:4], "attention_mask": MASK[:4]})
    arguments = Arguments(call, "input_ids", mask="attention_mask", special=(1, 2))
    return place_classes.measure(arguments, ids, PaidTargets(classes, classes[:4]))


def inner(classes: Tensor) -> Tensor:
    """The classes, but none at both ends."""
    classes = classes.clone()
    classes[:, [0, -1]] = IGNORED
    return classes


def test_tokens_tell_their_classes() -> None:
    signs = measure(inner(IDS % CLASSES))
    assert signs["targets.told"] > 0.8
    assert abs(signs["targets.entropy"] - 1.1) < 0.05
    assert signs["targets.head"] == 0


def test_classes_that_are_drawn_by_lot_are_told_by_nothing() -> None:
    signs = measure(inner(torch.randint(CLASSES, IDS.shape, generator=DRAWS)))
    assert abs(signs["targets.told"] - 0.5) < 2 / signs["targets.told_rows"] ** 0.5


def test_classes_of_words_that_end_before_the_text_show() -> None:
    classes = inner(IDS % CLASSES)
    classes[:, 10:] = IGNORED
    assert measure(classes)["targets.head"] == 1
    pairs = IDS.clone()
    pairs[:, 10] = 2  # the second text has no classes
    assert measure(classes, pairs)["targets.head"] == 0


def test_ids_of_a_vocabulary_are_no_classes() -> None:
    assert measure(inner(IDS)) == {}


def reshaped(logits: Tensor, classes: Tensor) -> Tensor:
    return F.cross_entropy(logits.reshape(ROWS, CLASSES, TIME), classes)


def transposed(logits: Tensor, classes: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), classes)


def one_for_each(logits: Tensor, classes: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, F.one_hot(classes % CLASSES, CLASSES).float())


def test_a_reshape_in_the_place_of_a_transpose_shows_in_the_gradient() -> None:
    logits = torch.randn(ROWS, TIME, CLASSES, generator=DRAWS).requires_grad_()
    classes = IDS % CLASSES
    for loss, expected in ((reshaped, 1.0), (transposed, 0.0), (one_for_each, 0.0)):
        (gradient,) = torch.autograd.grad(loss(logits, classes), logits)
        paid = paid_targets(gradient, logits.detach()[:4], nn.Linear(2, 2))
        assert paid.reshaped == expected, loss
