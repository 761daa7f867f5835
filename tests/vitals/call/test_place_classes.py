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


def moved(places: int, *, ids: Tensor = IDS, ends: bool = False) -> float:
    """The sign of classes that stand so many places on, or also at both ends of the rows."""
    classes = (IDS % CLASSES if ends else inner(IDS % CLASSES)).roll(places, 1)
    if not ends:
        classes[:, places if places < 0 else 0 : None if places < 0 else places] = IGNORED
    return measure(classes, ids)["targets.beside"]


def test_classes_beside_their_tokens_show_if_one_special_token_has_a_class() -> None:
    for places in (-2, -1, 1, 2):
        assert moved(places) > 3
    assert moved(0) == 0
    assert moved(-1, ends=True) == 0  # both ends have a class: nothing shows a side


def test_a_special_token_with_a_class_of_its_own_moves_no_others() -> None:
    classes = inner(IDS % CLASSES)
    classes[:, 0] = 1
    assert measure(classes)["targets.beside"] < 3
    by_lot = inner(torch.randint(CLASSES, IDS.shape, generator=DRAWS)).roll(-1, 1)
    assert measure(by_lot)["targets.beside"] < 3


def test_rows_without_special_tokens_show_no_side() -> None:
    ids = IDS.clone()
    ids[:, 0] = torch.arange(10, 10 + ROWS)
    assert moved(-1, ids=ids) == 0


def test_a_token_tells_the_class_that_it_had_in_other_rows() -> None:
    ids = torch.tensor([[5, 6, 7], [5, 6, 8]])
    classes = torch.tensor([[0, 1, IGNORED], [0, 0, IGNORED]])
    log_p = place_classes.log_p_by_token(ids, classes, 0).exp()
    prior = (2 + 1 / 32) / 3, (1 + 1 / 32) / 3, (1 / 32) / 3
    expected = [(1 + prior[0]) / 2, prior[2] / 2, (1 + prior[1]) / 2, prior[1] / 2]
    assert torch.allclose(log_p, torch.tensor(expected))


def squared(logits: Tensor, classes: Tensor) -> Tensor:
    return F.mse_loss(logits, F.one_hot(classes, CLASSES).float())


def of_probabilities(logits: Tensor, classes: Tensor) -> Tensor:
    return transposed(logits.softmax(-1), classes)


def test_probabilities_that_are_taken_for_logits_show_at_places_too() -> None:
    logits = torch.randn(ROWS, TIME, CLASSES, generator=DRAWS).requires_grad_()
    classes = IDS % CLASSES
    for loss, expected in ((of_probabilities, 1.0), (transposed, 0.0), (squared, 0.0)):
        (gradient,) = torch.autograd.grad(loss(logits, classes), logits)
        paid = paid_targets(gradient, logits.detach()[:4], nn.Linear(2, 2))
        assert paid.squashed == expected, loss
        assert paid.signs()["targets.squashed"] == expected
    wide = torch.randn(2, TIME, 33, generator=DRAWS).requires_grad_()
    (gradient,) = torch.autograd.grad(transposed(wide, IDS[:2] % 33), wide)
    assert paid_targets(gradient, wide.detach(), nn.Linear(2, 2)).squashed is None
