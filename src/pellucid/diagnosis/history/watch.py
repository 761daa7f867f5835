"""The history of any training under watch, with any model and loop.

pellucid runs the model once to find the placement of its norms, and leaves it unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never, cast

from torch import nn

from pellucid.diagnosis.expectations import Expectations
from pellucid.diagnosis.finding import Finding
from pellucid.diagnosis.history.adam_state import remembered_step, share_below_eps
from pellucid.diagnosis.history.first_targets import frequencies, is_log_p, of_gradient
from pellucid.diagnosis.history.history import Facts, History, Points, Reading
from pellucid.diagnosis.history.loop_findings import examine_loop
from pellucid.diagnosis.history.weight_shares import (
    adapter_scale,
    bounded_share,
    frozen_share,
    has_adapters,
    is_body_frozen,
    is_table_as_drawn,
    rate_fall,
    slow_share,
    trains_other_table,
    untrained_share,
)
from pellucid.diagnosis.logs.columns import measures_of
from pellucid.diagnosis.logs.history import of_objective
from pellucid.diagnosis.probes.norm_placement import Frame, frame_of
from pellucid.model.facts import (
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    attention_facts,
)
from pellucid.training import silently
from pellucid.vitals import Mark, MarkName, Point, Watch, WatchState, number_in

#: Weights that do not move, or have no gradient, while the watched optimisers step: those of
#: another optimiser, and copies of what is optimised.
_OF_ALL_WEIGHTS = ("update.ratio_low", "gradient.missing")
#: Marks of all that happens from one update to the next.
_OF_WHOLE_UPDATES = ("rates", "discarded", "repeated", "bare", "parts", "outputs")


def history_of_watch(
    watch: Watch,
    *,
    optimizer: Any = None,
    findings: Iterable[Finding] = (),
    declared: Expectations | None = None,
) -> History:
    """The readings of a watch, and the facts that model and optimiser state of the training.

    Args:
        watch: the watch.
        optimizer: the optimiser, if the watch has none.
        findings: the findings of probes.
        declared: what you intend of the model.
    """
    watched = watch.state
    record = watched.judge.record
    optimisers = watched.optimisers or (() if optimizer is None else (optimizer,))
    losses, norms, rates = (_points(s.points) for s in (record.losses, record.norms, record.rates))
    logged = {name: _points(series.points) for name, series in record.logged.items()}
    # a trainer with a loss of its own logs a mean over some updates, and passes no other
    losses = losses or logged.get("loss", ())
    signs = {
        id: tuple(Reading(*point) for point in series.points)
        for id, series in record.signs.items()
        if id not in _OF_ALL_WEIGHTS or not watched.moved_by_others
    }
    groups = _groups(optimisers)
    with silently():
        facts = watch.guard("facts of the training", _facts, watched, optimisers, rates)
        intended = declared or Expectations()
        loop_findings = (
            watch.guard("findings of the loop", examine_loop, watch, groups, intended) or []
        )
    facts = of_gradient(of_objective(facts or Facts(), logged), signs, losses)
    total = watch.first_call.planned_updates or (watch.updates if watch.has_ended else None)
    facts = replace(facts, total_steps=total)
    if not is_log_p(signs, losses):
        facts = replace(facts, unigram=None, bigram=None)  # no numbers to compare this loss with
    if facts.objective is not None and not watched.n_losses:
        # the model's own call has a loss of tokens, which is not what this trainer minimises
        losses = logged.get("loss", ())
    findings = tuple(findings)
    codes = {finding.code for finding in findings}
    return History(
        name=type(watched.anatomy.model).__name__,
        losses=losses,
        grad_norms=norms,
        rates=rates,
        signs=signs,
        facts=facts,
        measures=measures_of(logged),
        findings=(*findings, *(f for f in loop_findings if f.code not in codes)),
        stopped=_not_finite(losses, norms, signs),
        marks=_marks_of_all(watched),
        ranks=watched.ranks,
    )


def _marks_of_all(watched: WatchState) -> Mapping[MarkName, Mark]:
    """The marks; marks of whole updates only if no other optimiser steps between two of these."""
    hidden = _OF_WHOLE_UPDATES if watched.moved_by_others else ()
    return {name: mark for name, mark in watched.marks.items() if name not in hidden}


def _groups(optimisers: Sequence[Any]) -> list[dict[str, Any]]:
    return [group for optimiser in optimisers for group in optimiser.param_groups]


def _points(points: Iterable[Point]) -> Points:
    return tuple((point.step, point.value) for point in points)


def _facts(watched: WatchState, optimisers: Sequence[Any], rates: Points) -> Facts:
    groups = _groups(optimisers)
    model, judge, answers = watched.anatomy.model, watched.judge, watched.prompt_answers
    unknown = Frame(None, None)
    frame = unknown if watched.probe is None else frame_of(watched.anatomy, watched.probe.call)
    heads, scale = _attention(model)
    kinds = watched.anatomy.kinds
    guessing, labels = judge.guessing, judge.baselines
    return Facts(
        vocab_size=None if guessing is None else round(math.exp(guessing)),
        n_layers=len(watched.anatomy.blocks) or None,
        d_head=heads,
        score_scale=scale,
        norm=frame.norm,
        residual=frame.residual,
        dropout=max(_dropouts(model), default=None),
        optimiser=next((type(optimiser).__name__ for optimiser in optimisers), None),
        learning_rate=max((value for _, value in rates), default=None),
        initial_rate=next(_numbers(groups, "initial_lr"), None),
        warmup_steps=_rising(rates),
        betas=_betas(groups),
        momentum=max(_numbers(groups, "momentum"), default=None),
        eps=next(_numbers(groups, "eps"), None),
        weight_decay=max(_numbers(groups, "weight_decay"), default=None),
        decays=_decays(groups),
        clip_norm=judge.clip_norm,
        slows_down=any("initial_accumulator_value" in group for group in groups) or None,
        maximizes=any(bool(group.get("maximize")) for group in groups) if groups else None,
        # steps are not lost in weights that are copies of others
        weights=str(next(iter(kinds))).removeprefix("torch.")
        if len(kinds) == 1 and not watched.moved_by_others
        else None,
        unigram=frequencies(watched) if labels is None else labels.unigram,
        bigram=None if labels is None else labels.bigram,
        norm_eps=max((norm.facts.eps for norm in watched.anatomy.norms.values()), default=None),
        rests=None if watched.has_trained is None else not watched.has_trained,
        frozen=frozen_share(model),
        frozen_at_first=frozen_share(model, watched.n_trained_at_first),
        n_trained=_n_trained(groups),
        frozen_body=is_body_frozen(model),
        has_prompts=None if answers is None else answers.has_prompts,
        own_answers=None if answers is None else answers.are_own,
        untrained=untrained_share(model),
        random_table=is_table_as_drawn(model),
        adapted=has_adapters(model),
        trains_another=trains_other_table(model, optimisers),
        bounded=bounded_share(model),
        slow=max((slow_share(optimiser) for optimiser in optimisers), default=None),
        rate_fall=rate_fall(model, groups) if len(optimisers) == 1 else None,
        adapter_scale=adapter_scale(model),
        remembered_step=min(filter(None, map(remembered_step, optimisers)), default=None),
        below_eps=max(filter(None, map(share_below_eps, optimisers)), default=None),
    )


def _numbers(groups: list[dict[str, Any]], name: str) -> Iterator[float]:
    """The values of a setting that are one number: Adafactor's eps are two."""
    return (value for group in groups if (value := number_in(group, name)) is not None)


def _betas(groups: list[dict[str, Any]]) -> tuple[float, float] | None:
    """The first two betas, of an optimiser that has two or more."""
    all_betas = (group.get("betas") for group in groups)
    pairs = (
        cast("Any", group_betas)
        for group_betas in all_betas
        if isinstance(group_betas, tuple | list)
    )
    return next(((float(pair[0]), float(pair[1])) for pair in pairs if len(pair) > 1), None)


def _dropouts(model: nn.Module) -> Iterator[float]:
    """The rates of all dropout: of modules, and of those that call the function themselves."""
    for module in model.modules():
        for name, value in vars(module).items():
            is_rate = "dropout" in name or (name == "p" and isinstance(module, nn.Dropout))
            if is_rate and isinstance(value, float):
                yield value


def _decays(groups: list[dict[str, Any]]) -> Any:
    """Whether weight decay shrinks gains and biases too."""
    shrinking = [group for group in groups if number_in(group, "weight_decay")]
    if not shrinking:
        return None
    shapes = [p.ndim for g in shrinking for p in cast("list[nn.Parameter]", g["params"])]
    return "all" if min(shapes, default=2) < 2 else "matrices"


def _n_trained(groups: list[dict[str, Any]]) -> int | None:
    """How many numbers the optimisers train; None of none."""
    weights = (weight for group in groups for weight in cast("list[nn.Parameter]", group["params"]))
    return sum(weight.numel() for weight in weights if weight.requires_grad) or None


def _rising(rates: Points) -> int | None:
    """After how many updates the rate was as high as it came to be."""
    finite = [(step, value) for step, value in rates if math.isfinite(value)]
    if not finite:
        return None
    highest = max(value for _, value in finite)
    return next(step for step, value in finite if value >= 0.999 * highest) - rates[0][0]


def _attention(model: nn.Module) -> tuple[int | None, float | None]:
    """The first known width of a head, and the scale of its scores times the root of the width."""
    for module in model.modules():
        facts = attention_facts(module)
        match facts:
            case SoftmaxAttentionFacts() | LatentAttentionFacts() | NeuralMemoryFacts():
                return facts.d_head, facts.scale * math.sqrt(facts.d_head)
            case LinearAttentionFacts():
                continue
            case UnknownFacts():
                width = _attribute(module, "d_head", "head_dim")
                scale = _attribute(module, "scale", "scaling")
                if isinstance(width, int) and isinstance(scale, float):
                    return width, scale * math.sqrt(width)
            case _:
                assert_never(facts)
    return None, None


def _attribute(module: nn.Module, *names: str) -> object:
    """The first of these attributes that a module has."""
    return next((getattr(module, name) for name in names if hasattr(module, name)), None)


def _not_finite(
    losses: Points, norms: Points, signs: Mapping[str, tuple[Reading, ...]]
) -> tuple[int, str, str] | None:
    """The first value that was not finite: its update, its name, and its place.

    Signs count only if the loss or a gradient is not finite either: a step of 0 has no ratio to a
    learning rate of 0.
    """
    points = [(step, "loss", "") for step, value in losses if not math.isfinite(value)]
    points += [(step, "gradient", "") for step, value in norms if not math.isfinite(value)]
    if points:
        points += [
            (reading.step, id, reading.place)
            for id, readings in signs.items()
            for reading in readings
            if not math.isfinite(reading.value)
        ]
    # at the first update, prefer a value with a place
    return min(points, key=lambda point: (point[0], not point[2]), default=None)
