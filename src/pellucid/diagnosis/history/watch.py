"""The history of a training that was watched, whoever's model and loop it was.

pellucid runs the model once, to see where its norms are, and leaves it unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, assert_never, cast

from torch import nn

from pellucid.diagnosis.finding import Evidence, Finding, build_finding, limit
from pellucid.diagnosis.history.history import Facts, History, Points, Reading
from pellucid.diagnosis.probes.norm_placement import Frame, frame_of
from pellucid.model.facts import (
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    attention_facts,
)
from pellucid.training import silently
from pellucid.vitals import Point, Watch, WatchState, baselines, number_in

#: Fewer labels tell nothing of how frequent tokens are.
_LEAST_LABELS = 128


def history_of_watch(
    watch: Watch, *, optimizer: Any = None, findings: Iterable[Finding] = ()
) -> History:
    """What a watch has seen, and how it is trained as far as model and optimiser tell.

    `optimizer` is needed where the watch was given none; `findings` are those of probes.
    """
    watched = watch.state
    record = watched.judge.record
    optimisers = watched.optimisers or (() if optimizer is None else (optimizer,))
    losses, norms, rates = (_points(s.points) for s in (record.losses, record.norms, record.rates))
    signs = {
        id: tuple(Reading(*point) for point in series.points) for id, series in record.signs.items()
    }
    groups = [group for optimiser in optimisers for group in optimiser.param_groups]
    with silently():
        facts = watch.guard("facts of the training", _facts, watched, groups, rates)
        of_the_loop = watch.guard("findings of the loop", _of_the_loop, watch, groups)
    return History(
        name=type(watched.anatomy.model).__name__,
        losses=losses,
        grad_norms=norms,
        rates=rates,
        signs=signs,
        facts=facts or Facts(),
        findings=_together(findings, of_the_loop or []),
        stopped=_not_finite(losses, norms, signs),
    )


def _points(points: Iterable[Point]) -> Points:
    return tuple((point.step, point.value) for point in points)


def _facts(watched: WatchState, groups: list[dict[str, Any]], rates: Points) -> Facts:
    model, judge = watched.anatomy.model, watched.judge
    unknown = Frame(None, None)
    frame = unknown if watched.probe is None else frame_of(watched.anatomy, watched.probe.call)
    heads, scale = _attention(model)
    kinds = {parameter.dtype for parameter in watched.anatomy.parameters.values()}
    sizes = [parameter.numel() for parameter in model.parameters()]
    trained = sum(parameter.numel() for parameter in watched.anatomy.parameters.values())
    guessing, labels = judge.guessing, judge.baselines
    return Facts(
        vocab_size=None if guessing is None else round(math.exp(guessing)),
        n_layers=len(watched.anatomy.blocks) or None,
        d_head=heads,
        score_scale=scale,
        norm=frame.norm,
        residual=frame.residual,
        dropout=max((m.p for m in model.modules() if isinstance(m, nn.Dropout)), default=None),
        learning_rate=max((value for _, value in rates), default=None),
        warmup_steps=_rising(rates),
        betas=_betas(groups),
        eps=next(_numbers(groups, "eps"), None),
        weight_decay=max(_numbers(groups, "weight_decay"), default=None),
        decays=_decays(groups),
        clip_norm=judge.clip_norm,
        weights=str(next(iter(kinds))).removeprefix("torch.") if len(kinds) == 1 else None,
        unigram=_frequencies(watched) if labels is None else labels.unigram,
        bigram=None if labels is None else labels.bigram,
        norm_eps=max((norm.facts.eps for norm in watched.anatomy.norms.values()), default=None),
        frozen=1 - trained / max(1, sum(sizes)),
    )


def _numbers(groups: list[dict[str, Any]], name: str) -> Iterator[float]:
    """The groups' numbers of a name, those that are numbers: Adafactor's eps are two."""
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


def _decays(groups: list[dict[str, Any]]) -> Any:
    """Whether weight decay takes gains and biases too."""
    shrinking = [group for group in groups if number_in(group, "weight_decay")]
    if not shrinking:
        return None
    shapes = [p.ndim for g in shrinking for p in cast("list[nn.Parameter]", g["params"])]
    return "all" if min(shapes, default=2) < 2 else "matrices"


def _frequencies(watched: WatchState) -> float | None:
    """The entropy of single tokens among the labels of the fixed rows, if there are enough."""
    labels = None if watched.probe is None else watched.probe.labels
    if labels is None or labels.ndim != 2 or labels.numel() < _LEAST_LABELS:
        return None
    return baselines(labels).unigram


def _rising(rates: Points) -> int | None:
    """After how many updates the rate was as high as it came to be."""
    finite = [(step, value) for step, value in rates if math.isfinite(value)]
    if not finite:
        return None
    highest = max(value for _, value in finite)
    return next(step for step, value in finite if value >= 0.999 * highest) - rates[0][0]


def _attention(model: nn.Module) -> tuple[int | None, float | None]:
    """The features of a head, and the scale of scores times their root, where a module says so."""
    for module in model.modules():
        facts = attention_facts(module)
        match facts:
            case SoftmaxAttentionFacts() | NeuralMemoryFacts():
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


def _of_the_loop(watch: Watch, groups: list[dict[str, Any]]) -> list[Finding]:
    """What is plain from the loop itself."""
    return [*_left_out(watch.state, groups), *_never_stepped(watch), *_begun_anew(watch)]


def _together(findings: Iterable[Finding], additions: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings, with those of others that were not found yet."""
    first = tuple(findings)
    codes = {finding.code for finding in first}
    return (*first, *(finding for finding in additions if finding.code not in codes))


def _never_stepped(watch: Watch) -> list[Finding]:
    """Losses that were handed over, and no update."""
    if watch.updates or watch.state.n_losses < limit("OPT017", "losses"):
        return []
    sign = Evidence(
        "losses without an update", watch.state.n_losses, "an update for each few", "by definition"
    )
    return [
        build_finding(
            "OPT017", f"{watch.state.n_losses} losses were computed, and no update was made.", sign
        )
    ]


def _begun_anew(watch: Watch) -> list[Finding]:
    """An optimiser whose memory is younger than the watch."""
    ages = [
        age
        for optimiser in watch.state.optimisers
        for state in cast("dict[Any, dict[str, Any]]", optimiser.state).values()
        if (age := number_in(state, "step")) is not None
    ]
    lost = watch.updates - int(max(ages, default=watch.updates))
    if lost < 2 or max(ages, default=0) < 1:
        return []
    sign = Evidence(
        "updates that it remembers", int(max(ages)), str(watch.updates), "by definition"
    )
    text = f"Of {watch.updates} updates, the optimiser remembers {int(max(ages))}."
    return [replace(build_finding("OPT015", text, sign, where="optimiser state"), step=lost)]


def _left_out(watched: WatchState, groups: list[dict[str, Any]]) -> list[Finding]:
    """Trainable parameters that no optimiser of the watch moves."""
    if not watched.optimisers:
        return []
    moved = {id(p) for group in groups for p in cast("list[nn.Parameter]", group["params"])}
    names = [name for name, p in watched.anatomy.parameters.items() if id(p) not in moved]
    if not names:
        return []
    sign = Evidence("parameters not in the optimiser", len(names), "0", "by definition")
    text = (
        f"{len(names)} of {len(watched.anatomy.parameters)} trainable tensors are in no optimiser."
    )
    return [build_finding("OPT001", text, sign, where=", ".join(names[:4]))]


def _not_finite(
    losses: Points, norms: Points, signs: Mapping[str, tuple[Reading, ...]]
) -> tuple[int, str, str] | None:
    """The first value that was not finite: at which update, what, and where.

    A sign that is not finite while loss and gradients are is none of these: a step of 0 has no
    ratio to a learning rate of 0.
    """
    met = [(step, "loss", "") for step, value in losses if not math.isfinite(value)]
    met += [(step, "gradient", "") for step, value in norms if not math.isfinite(value)]
    if met:
        met += [
            (read.step, id, read.where)
            for id, readings in signs.items()
            for read in readings
            if not math.isfinite(read.value)
        ]
    # of those of one update, one with a place says most
    return min(met, key=lambda point: (point[0], not point[2]), default=None)
