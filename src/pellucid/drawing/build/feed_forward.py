"""The inside of feed-forward layers, as parts of a drawing."""

from __future__ import annotations

from typing import assert_never

from pellucid.config import (
    MLP,
    ClampedGatedMLP,
    DenseFeedForward,
    Experts,
    GatedMLP,
    OneFeedForward,
    Router,
)
from pellucid.drawing.elements import Arrow, Box, Column, Fork, Frame


def feed_forward_inside(feed_forward: OneFeedForward, d_model: int) -> Column:
    """A wider layer, the activation, and a narrower layer; or a router and its experts."""
    match feed_forward:
        case MLP() | GatedMLP() | ClampedGatedMLP():
            return _dense(feed_forward, d_model)
        case Experts():
            return _experts(feed_forward, d_model)
        case _:
            assert_never(feed_forward)


def _dense(feed_forward: DenseFeedForward, d_model: int) -> Column:
    d_ff = feed_forward.d_ff
    up = Box(name="up", lines=(f"{d_model} -> {d_ff}",))
    down = Box(name="down", lines=(f"{d_ff} -> {d_model}",))
    gate = Box(name="gate", lines=(f"{d_model} -> {d_ff}",))
    wide = Arrow(f"(batch, time, {d_ff})")
    match feed_forward:
        case MLP(activation=activation):
            return (Arrow(), up, wide, Box(name=activation), Arrow(), down, Arrow())
        case GatedMLP(activation=activation):
            bent = (Arrow(), gate, Arrow(), Box(name=activation), Arrow())
            product = Box(name="gate x up", wide=True)
            return (Fork((bent, (Arrow(), up, Arrow()))), product, wide, down, Arrow())
        case ClampedGatedMLP(limit=limit, slope=slope):
            clamped = Box(name=f"at most {limit:g}"), Box(name=f"within +-{limit:g}")
            fork = Fork(
                tuple(
                    (Arrow(), part, Arrow(), clamp, Arrow())
                    for part, clamp in zip((gate, up), clamped, strict=True)
                )
            )
            product = Box(name=f"(up + 1) gate sigmoid({slope:g} gate)", wide=True)
            return (fork, product, wide, down, Arrow())
        case _:
            assert_never(feed_forward)


def _experts(experts: Experts, d_model: int) -> Column:
    n, k = experts.n_experts, experts.n_active
    router = Box(name="Router", lines=(f"{d_model} -> {n}", *_rule(experts.router, k)))
    expert = _in_one_column(experts.expert, f"{k} of {n} experts", d_model)
    branches: list[Column] = [(Arrow(), router, Arrow()), (Arrow(), expert, Arrow())]
    total = f"sum of weight x {experts.weights_on}"
    if experts.shared is not None:
        branches.append((Arrow(), _in_one_column(experts.shared, "shared", d_model), Arrow()))
        total += " + sigmoid(gate) x shared" if experts.shared_gate else " + shared"
    return (Fork(tuple(branches)), Box(name=total, wide=True), Arrow())


def _in_one_column(feed_forward: DenseFeedForward, use: str, d_model: int) -> Frame:
    """A dense layer without a fork of its own: it stands in a branch already."""
    d_ff = feed_forward.d_ff
    match feed_forward:
        case MLP(activation=activation):
            steps = [Box(name="up", lines=(f"{d_model} -> {d_ff}",)), Box(name=activation)]
        case GatedMLP(activation=activation):
            product = Box(name=f"{activation}(gate) x up")
            steps = [_gate_and_up(d_model, d_ff), product]
        case ClampedGatedMLP(limit=limit, slope=slope):
            clamp = Box(name="clamp", lines=(f"gate at most {limit:g}", f"up within +-{limit:g}"))
            product = Box(name=f"(up + 1) gate sigmoid({slope:g} gate)")
            steps = [_gate_and_up(d_model, d_ff), clamp, product]
        case _:
            assert_never(feed_forward)
    down = Box(name="down", lines=(f"{d_ff} -> {d_model}",))
    column = (Arrow(), *(part for box in (*steps, down) for part in (box, Arrow())))
    return Frame(Box(name=type(feed_forward).__name__, lines=(use,)), column)


def _gate_and_up(d_model: int, d_ff: int) -> Box:
    return Box(name="gate, up", lines=(f"{d_model} -> {d_ff} each",))


def _rule(router: Router, n_active: int) -> tuple[str, ...]:
    groups, scale = router.groups, f"x {router.scale:g}"
    return tuple(
        line
        for line, applies in (
            (router.scores, True),
            ("+ bias of the choice", router.balancing_rate is not None),
            (
                f"ExpertGroups: best {groups.n_active} of {groups.n_groups}" if groups else "",
                groups is not None,
            ),
            (f"best {n_active}", True),
            ("weights sum to 1", router.normalised),
            (scale, router.scale != 1.0),
        )
        if applies
    )
