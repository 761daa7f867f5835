"""What a teacher asks for, next to the tokens of the text."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.paid_targets import PaidTargets, paid_targets
from pellucid.vitals.call.soft_targets import measure_choice
from pellucid.vitals.taps.recorded_call import Call

VOCAB, ROWS, TIME = 64, 8, 20
IDS = torch.randint(VOCAB, (ROWS, TIME), generator=torch.Generator().manual_seed(0))
UNTAUGHT = torch.zeros(ROWS, TIME, VOCAB)
CALL = Arguments(Call((), {"input_ids": IDS}), "input_ids")


def taught(
    *, moved: int = 0, surety: float = 2.0, places: slice = slice(None), axis: int = -1
) -> PaidTargets:
    """What is asked of a student by a teacher that often knows the next token, or another id.

    Args:
        moved: How far the id is from the next token's.
        surety: How well the teacher knows it.
        places: The places that are paid for.
        axis: The axis of the softmax: -1 is right.
    """
    teacher = torch.randn(ROWS, TIME, VOCAB, generator=torch.Generator().manual_seed(1))
    following = (IDS.roll(-1, 1) + moved) % VOCAB
    teacher.scatter_add_(2, following[..., None], torch.full((ROWS, TIME, 1), surety))
    logits = UNTAUGHT.clone().requires_grad_()
    of_places = (teacher.softmax(axis) * logits.log_softmax(axis)).sum(-1)
    loss = -of_places[:, places].mean()
    (gradient,) = torch.autograd.grad(loss, logits)
    return paid_targets(gradient, UNTAUGHT, torch.nn.Embedding(VOCAB, 4), IDS)


def measured(paid: PaidTargets, outputs: Tensor = UNTAUGHT) -> float | None:
    return measure_choice(CALL, IDS, paid, outputs).get("targets.taught")


def test_a_teacher_favours_the_next_token() -> None:
    assert (measured(taught()) or 0) > 10


def test_a_teacher_with_other_ids_does_so_by_chance() -> None:
    assert abs(measured(taught(moved=7)) or 9) < 2
    assert abs(measured(taught(surety=0.0)) or 9) < 2


def test_a_student_that_knows_something_is_not_judged() -> None:
    sure = 20 * torch.nn.functional.one_hot(IDS, VOCAB).float()
    assert measured(taught(moved=7), sure) is None
    assert measured(replace(taught(), single=1.0)) is None
    assert measured(replace(taught(), is_of_softmax=False)) is None
    assert measure_choice(CALL, None, taught(), UNTAUGHT) == {}
    assert measure_choice(CALL, IDS, None, UNTAUGHT) == {}


def test_a_teacher_may_be_asked_for_prompts_alone() -> None:
    for places, share in ((slice(0, 8), 1.0), (slice(8, None), 0.0), (slice(None), 0.0)):
        signs = measure_choice(CALL, IDS, taught(places=places), UNTAUGHT)
        assert signs["targets.head"] == share


def test_a_softmax_over_places_shows_in_the_gradient() -> None:
    for axis, reshaped in ((-1, 0.0), (1, 1.0), (0, 1.0)):
        assert taught(axis=axis).reshaped == reshaped


def test_what_a_teacher_knows_better_is_raised() -> None:
    for surety, moved, least, most in ((2.0, 0, 0.9, 1.0), (20.0, 7, 0.0, 0.1)):
        raised = taught(surety=surety, moved=moved).raised
        assert raised is not None
        assert least <= raised <= most
    sure = replace(taught(), single=1.0)
    assert "targets.raised" not in sure.signs()
