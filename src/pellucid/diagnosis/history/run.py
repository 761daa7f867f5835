"""The history of a run of pellucid's own, from its folder."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pellucid import config
from pellucid.diagnosis.finding import Finding
from pellucid.diagnosis.history.history import Facts, History, Points, Reading
from pellucid.diagnosis.logs.columns import measures_of
from pellucid.runs import existing_folder, read_events
from pellucid.saved_runs.load import read_config, read_plan
from pellucid.training import Evaluated, Event, Logged, Sampled, Started, StoppedNonFinite, Vitals


def history_of_run(path: str | Path, *, findings: Iterable[Finding] = ()) -> History:
    """The history of a training, from the run's folder; `findings` come from probes.

    Raises:
        RunError: there is no run at `path`.
    """
    folder, _ = existing_folder(Path(path))
    run = read_config(folder)
    events = read_events(folder.metrics)
    plan = read_plan(folder) if folder.plan.is_file() else None
    history = history_of_events(folder.path.name, events, run, findings)
    if plan is None:
        return history
    return replace(history, facts=replace(history.facts, precision=plan.precision))


def history_of_events(
    name: str, events: Sequence[Event], run: config.Run | None, findings: Iterable[Finding] = ()
) -> History:
    """The history of a training, from its events and its config.

    Args:
        name: the name of the history.
        events: the events of the training, in order.
        run: the config, if it is known.
        findings: the findings of probes.
    """
    logged = [event for event in events if isinstance(event, Logged)]
    signs = _signs(event for event in events if isinstance(event, Vitals))
    stops = [event for event in events if isinstance(event, StoppedNonFinite)]
    losses = tuple(point for event in logged for point in _numbered(event.step, event.losses))
    totals = [event.total_steps for event in events if isinstance(event, Started | Logged)]
    facts = Facts() if run is None else facts_of(run, totals[-1] if totals else None)
    started = next((event for event in events if isinstance(event, Started)), None)
    if started is not None and started.guessing_nats is not None and facts.vocab_size is None:
        facts = replace(facts, vocab_size=round(math.exp(started.guessing_nats)))
    return History(
        name=name,
        losses=losses,
        held_out=tuple((e.step, e.loss_nats) for e in events if isinstance(e, Evaluated)),
        grad_norms=tuple(p for event in logged for p in _numbered(event.step, event.grad_norms)),
        rates=tuple((event.step, event.learning_rate) for event in logged),
        signs=signs,
        facts=_with_entropies(facts, signs, dict(losses)),
        findings=tuple(findings),
        stopped=(stops[-1].step, stops[-1].what, stops[-1].where) if stops else None,
        config=run,
        samples=tuple((e.step, e.continuation) for e in events if isinstance(e, Sampled)),
        measures=measures_of(_read_parts(logged)),
    )


def _read_parts(logged: Iterable[Logged]) -> dict[str, Points]:
    """The parts of the loss that the objective reports, by name."""
    parts: dict[str, Points] = {}
    for event in logged:
        for name, values in event.parts:
            parts[name] = (*parts.get(name, ()), *_numbered(event.step, values))
    return parts


def facts_of(run: config.Run, total: int | None) -> Facts:
    """The facts that a config states of a training of `total` updates."""
    stack = run.model.stacks[-1]
    optimiser, schedule, training = run.optimiser, run.schedule, run.training
    adam = optimiser.rest if isinstance(optimiser, config.Muon) else optimiser
    is_adam = isinstance(adam, config.AdamW | config.Adam)
    attention = stack.pattern[0]
    has_scale = isinstance(attention, config.MultiHead | config.LatentAttention)
    scale = attention.scale if has_scale else None
    d_head = attention.d_head
    if isinstance(attention, config.LatentAttention):
        d_head += attention.d_rotated
    return Facts(
        vocab_size=run.model.vocab_size,
        n_layers=stack.n_layers,
        d_head=d_head,
        d_model=run.model.d_model,
        norm_eps=stack.norm.eps,
        norm=_norm(stack.residual),
        residual=not isinstance(stack.residual, config.NoResidual),
        final_norm=stack.final_norm or isinstance(stack.residual, config.PostNorm),
        score_scale=1.0 if scale is None else scale * math.sqrt(d_head),
        dropout=max(stack.dropout, stack.input_dropout, getattr(attention, "dropout", 0.0)),
        optimiser=type(optimiser).__name__,
        learning_rate=optimiser.learning_rate,
        warmup_steps=None if total is None else round(schedule.warm_up * total),
        total_steps=total,
        betas=adam.betas if is_adam else None,
        eps=adam.eps if is_adam else None,
        weight_decay=getattr(optimiser, "weight_decay", None),
        decays="matrices",
        clip_norm=training.clip_norm,
        batch_tokens=training.batch_size * run.model.context_length,
        precision=None if training.precision == "auto" else training.precision,
        weights="float32",
        pretrained=run.start is not None,
        objective=type(run.objective).__name__,
    )


def _norm(residual: config.Residual) -> Literal["pre", "post", "both"]:
    match residual:
        case config.PostNorm() | config.DeepNorm():
            return "post"
        case config.SandwichNorm():
            return "both"
        case _:
            return "pre"


def _numbered(last: int, values: Sequence[float]) -> list[tuple[int, float]]:
    return list(enumerate(values, start=last - len(values) + 1))


def _signs(events: Iterable[Vitals]) -> dict[str, tuple[Reading, ...]]:
    """Each sign's readings in order; an event repeats a reading until there is a new one."""
    readings: dict[str, dict[int, Reading]] = {}
    for event in events:
        for id, _, value, word, step, place in event.signs:
            readings.setdefault(id, {})[step] = Reading(step, value, word, place)
    return {
        id: tuple(by_step[step] for step in sorted(by_step)) for id, by_step in readings.items()
    }


def _with_entropies(
    facts: Facts, signs: Mapping[str, tuple[Reading, ...]], losses: Mapping[int, float]
) -> Facts:
    """The facts, with the labels' entropies from the signs that compare the loss with them."""
    for read in signs.get("loss.below_bigram", ())[:1]:
        if read.step in losses:
            facts = replace(facts, bigram=read.value + losses[read.step])
    for read in signs.get("loss.context", ())[:1]:
        last = [losses[n] for n in range(read.step - 19, read.step + 1) if n in losses]
        if last:
            facts = replace(facts, unigram=read.value + statistics.fmean(last))
    return facts
