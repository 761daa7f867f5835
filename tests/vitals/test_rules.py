"""The file of thresholds: every rule is told, has a source, and stands on the page; new signs."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from pellucid.vitals import Rule, VerdictTracker, rules_of, watch
from pellucid.vitals.async_metrics import Column
from pellucid.vitals.taps.gradients import names_of_trunk
from support.foreign import adam, ids_of, loss_of, made


@pytest.mark.parametrize("rule", rules_of().values(), ids=lambda rule: rule.id)
def test_every_rule_has_a_source(rule: Rule) -> None:
    assert rule.source


def test_why_says_the_limit_that_was_passed() -> None:
    rules = rules_of()
    ratio = rules["update.ratio"]
    assert ratio.describe_breach("sick", 0.7).startswith("sick above 0.5: how far")
    assert ratio.describe_breach("watch", 5e-5).startswith("watch below 0.0001: how far")
    assert ratio.describe_breach("calm", 1.0) == ""
    assert ratio.describe_breach("sick", math.nan).startswith("not finite: how far")


def scores(judge: VerdictTracker, values: list[float], every: int = 25) -> str:
    for i, value in enumerate(values, start=1):
        judge.read(i * every, [(Column("attention.max_logit", ("head",)), [value])])
    return judge.signs["attention.heading_for"].word


def test_scores_that_grow_on_are_told_before_they_are_large_and_others_are_not() -> None:
    line = [float(4 * i) for i in range(1, 12)]
    faster = [i**2 / 4 for i in range(1, 15)]
    level = [40 * (1 - math.exp(-i / 3)) for i in range(1, 40)]
    young = [0.2 * 1.3**i for i in range(1, 18)]
    assert scores(VerdictTracker(rules_of()), line) == "calm"  # 44: it heads for 88
    assert scores(VerdictTracker(rules_of()), faster) == "watch"  # 49, and heads for more than 100
    assert scores(VerdictTracker(rules_of()), level) == "calm"
    assert scores(VerdictTracker(rules_of()), young) == "calm"


def test_a_sick_reading_is_looked_at_again_before_the_next_look_is_due() -> None:
    model = made()
    for layer in model.layers:
        layer.qkv.weight.data.mul_(100)
    optimizer = adam(model, 1e-4)
    with watch(model, optimizer, max_overhead=None) as w:
        for step in range(4):
            loss_of(model, ids_of(step)).backward()
            optimizer.step()
            optimizer.zero_grad()
    # the look that is due is that of the fifth update
    found = {sign.id: sign for sign in w.signs}
    assert found["attention.max_logit"].word == "sick"
    assert found["attention.max_logit"].step == 4


def trained_in(dtype: torch.dtype, rate: float) -> dict[str, tuple[float, str]]:
    model = made().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    with watch(model, optimizer, max_overhead=None) as w:
        for step in range(31):
            loss_of(model, ids_of(step)).backward()
            optimizer.step()
            optimizer.zero_grad()
    return {sign.id: (sign.value, sign.word) for sign in w.signs}


def test_updates_that_half_precision_swallows_are_counted() -> None:
    assert trained_in(torch.bfloat16, 1e-4)["update.lost"][1] == "sick"
    assert "update.lost" not in trained_in(torch.float32, 1e-4)


def test_gradients_are_of_one_direction_where_the_batch_is_always_the_same() -> None:
    ends: list[float] = []
    for same in (True, False):
        model = made()
        model.eval()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        with watch(model, optimizer, max_overhead=None, clip_norm=None) as w:
            for step in range(21):
                loss_of(model, ids_of(0 if same else step)).backward()
                optimizer.step()
                optimizer.zero_grad()
        ends.append({sign.id: sign.value for sign in w.signs}["gradient.cosine"])
    assert ends[0] > 0.99 > ends[1]


def test_a_part_that_the_model_never_goes_through_lacks_no_gradient() -> None:
    model = made()
    model.pooler = nn.Linear(16, 16)
    found: list[float] = []
    for detached in (False, True):
        if detached:
            model.layers[1].up.register_forward_hook(lambda module, given, out: out.detach())
        model.zero_grad(set_to_none=True)
        optimizer = adam(model)
        with watch(model, optimizer, max_overhead=None) as w:
            for step in range(3):
                loss_of(model, ids_of(step)).backward()
                optimizer.step()
        found.append({sign.id: sign.value for sign in w.signs}["gradient.missing"])
    assert found[0] == 0
    assert found[1] > 0


def certain(loss: float, *, first: float | None = None, updates: int = 5) -> str:
    judge = VerdictTracker(rules_of())
    judge.guessing = math.log(1000)
    for step in range(1, updates + 1):
        judge.loss(step, loss if step > 1 or first is None else first)
        judge.read(step, [(Column("predictions.certain", ("",)), [1.0])])
    return judge.signs["predictions.certain"].word


def test_a_task_that_is_solved_is_not_called_sick() -> None:
    assert certain(0.01) == "watch"
    assert certain(0.5) == "sick"  # certain, and wrong: no gradient is left to learn from


def test_a_guess_that_is_all_right_after_a_few_updates_is_too_good_to_be_solved() -> None:
    assert certain(0.01, first=math.log(1000), updates=100) == "sick"


def same(losses: list[float]) -> str:
    judge = VerdictTracker(rules_of())
    for step, loss in enumerate(losses, start=1):
        judge.loss(step, loss)
        judge.read(step, [(Column("reference.same", ("",)), [1.0])])
    return judge.signs["reference.same"].word


def test_preferences_that_are_met_without_a_change_of_answers_are_not_calm() -> None:
    assert same([0.693] * 40) == "calm"  # nothing is learnt yet, and nothing has to change
    assert same([0.693 * 0.9**step for step in range(40)]) == "watch"


def test_a_pooler_behind_shared_layers_is_no_part_of_the_trunk() -> None:
    names = ("embedding.weight", "layers.0.weight", "pooler.weight", "head.weight")
    assert names_of_trunk(dict.fromkeys(names)) == set(names[:2])
    assert names_of_trunk(dict(zip(names, (None, 0, None, None), strict=True))) == set(names[:2])
    assert names_of_trunk(dict.fromkeys(names[2:])) == set(names[2:])


def test_a_pooler_follows_the_blocks_of_its_own_tower() -> None:
    parts = ("enc.tokens.weight", "enc.layers.0.weight", "enc.pooler.weight")
    names = [f"{tower}.{part}" for tower in ("q", "d") for part in parts]
    depths = dict(zip(names, (None, 0, None, None, 1, None), strict=True))
    assert names_of_trunk(depths) == {name for name in names if "pooler" not in name}
    between = dict(zip(("a.0.weight", "bridge.weight", "b.0.weight"), (0, None, 1), strict=True))
    assert names_of_trunk(between) == set(between)
