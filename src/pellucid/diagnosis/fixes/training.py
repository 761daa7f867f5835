"""Remedies for how a model is trained: what each makes of a config."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, assert_never

from pellucid import config

#: Values by path; None takes a value away.
Changes = dict[str, Any]
ConfigChange = Callable[[config.Run], Changes]

_MOST_WARM_UP = 0.3
_USUAL_DECAY, _USUAL_EPS, _USUAL_BETA2 = 0.1, 1e-8, 0.95
#: What SGD is wont to begin with.
SGD_RATE = 0.1
_WORDS_OF_A_LOSS = ("label_smoothing", "entropy_bonus", "z_loss")


#: Remedies that change the learning rate, and by how much.
RATES: Mapping[str, float] = {
    "rate_third": 1 / 3,
    "rate_tenth": 1 / 10,
    "rate_thirtieth": 1 / 30,
    "rate_hundredth": 1 / 100,
    "rate_thrice": 3.0,
    "rate_tenfold": 10.0,
    "rate_thirtyfold": 30.0,
    "rate_hundredfold": 100.0,
    "rate_threehundredfold": 300.0,
    "rate_thousandfold": 1000.0,
    "rate_threethousandfold": 3000.0,
}


def near(value: float) -> float:
    """The number in three digits, as a person would write it."""
    return float(f"{value:.3g}")


def _rate(factor: float) -> ConfigChange:
    return lambda run: {
        f"{path}.learning_rate": near(optimiser.learning_rate * factor)
        for path, optimiser in _optimisers(run)
    }


def _rate_usual(run: config.Run) -> Changes:
    """What others begin with, where this run has more."""
    return {
        f"{path}.learning_rate": rate
        for path, optimiser in _optimisers(run)
        if optimiser.learning_rate > (rate := _usual_rate(optimiser))
    }


def _usual_rate(optimiser: config.Optimiser) -> float:
    match optimiser:
        case config.AdamW() | config.Adam():
            return 1e-3
        case config.SGD():
            return SGD_RATE
        case config.Muon():
            return 0.02
        case _:
            assert_never(optimiser)


def _optimisers(run: config.Run) -> Iterator[tuple[str, config.Optimiser]]:
    """Everything with a learning rate, by its path."""
    yield "optimiser", run.optimiser
    if isinstance(run.optimiser, config.Muon):
        yield "optimiser.rest", run.optimiser.rest


def _adams(run: config.Run) -> Iterator[tuple[str, config.Adam | config.AdamW]]:
    for path, optimiser in _optimisers(run):
        if isinstance(optimiser, config.Adam | config.AdamW):
            yield path, optimiser


def _warm_up_longer(run: config.Run) -> Changes:
    """Three times as long, and long enough for Adam's memory; at most three tenths of the run."""
    warm_up, longest = run.schedule.warm_up, _MOST_WARM_UP
    if isinstance(run.schedule, config.WarmUpStableDecay):
        longest = min(longest, 1 - run.schedule.decay)
    budget = run.training.budget
    memory = [2 / (1 - adam.betas[1]) for _, adam in _adams(run)]
    needed = max(memory, default=0.0) / budget.count if isinstance(budget, config.Steps) else 0.1
    target = min(longest, max(3 * warm_up, needed, 0.02))
    return {"schedule.warm_up": near(target)} if target > warm_up else {}


def _warm_up_shorter(run: config.Run) -> Changes:
    return {"schedule.warm_up": 0.05} if run.schedule.warm_up > 0.2 else {}


def _clip(run: config.Run) -> Changes:
    clip_norm = run.training.clip_norm
    return {"training.clip_norm": 1.0} if clip_norm is None or clip_norm > 1 else {}


def _clip_looser(run: config.Run) -> Changes:
    clip_norm = run.training.clip_norm
    return {"training.clip_norm": 1.0} if clip_norm is not None and clip_norm < 1 else {}


def _eps(run: config.Run) -> Changes:
    return {f"{path}.eps": _USUAL_EPS for path, adam in _adams(run) if adam.eps > _USUAL_EPS}


def _beta2(run: config.Run) -> Changes:
    return {
        f"{path}.betas": (adam.betas[0], _USUAL_BETA2)
        for path, adam in _adams(run)
        if adam.betas[1] > _USUAL_BETA2
    }


def _betas(run: config.Run) -> Changes:
    return {f"{path}.betas": (0.9, _USUAL_BETA2) for path, _ in _adams(run)}


def _momentum(run: config.Run) -> Changes:
    optimiser = run.optimiser
    has = isinstance(optimiser, config.SGD | config.Muon) and optimiser.momentum > 0.95
    return {"optimiser.momentum": 0.9} if has else {}


def _decay(run: config.Run) -> Changes:
    return _decay_of(run, lambda decay: _USUAL_DECAY if decay > _USUAL_DECAY else None)


def _no_decay(run: config.Run) -> Changes:
    return _decay_of(run, lambda decay: 0.0 if decay > 0 else None)


def _decay_of(run: config.Run, changed: Callable[[float], float | None]) -> Changes:
    """Weight decay as `changed` has it; L2, which goes through the gradient, is left out."""
    changes: Changes = {}
    for path, optimiser in _optimisers(run):
        match optimiser:
            case config.AdamW() | config.Muon():
                value = changed(optimiser.weight_decay)
                if value is not None:
                    changes[f"{path}.weight_decay"] = value
            case config.Adam() | config.SGD():
                if optimiser.l2 > 0:
                    changes[f"{path}.l2"] = 0.0
            case _:
                assert_never(optimiser)
    return changes


def _no_penalties(run: config.Run) -> Changes:
    return {"penalties": ()} if run.penalties else {}


def _larger_batch(run: config.Run) -> Changes:
    training, growth = run.training, run.training.growth
    grows = isinstance(growth, config.GrowingBatch)
    return {
        "training.batch_size": 4 * training.batch_size,
        "training.accumulation": 4 * training.accumulation,
        **({"training.growth.first": 4 * growth.first} if grows else {}),
    }


def _float32(run: config.Run) -> Changes:
    return {} if run.training.precision == "float32" else {"training.precision": "float32"}


def _z_loss(run: config.Run) -> Changes:
    z_loss = getattr(run.objective, "z_loss", None)
    return {"objective.z_loss": 1e-4} if z_loss is not None and z_loss < 1e-4 else {}


def _plain_loss(run: config.Run) -> Changes:
    """Without what is added to cross-entropy; a z-loss as weak as is usual may stay."""
    least = {"z_loss": 1e-3}
    return {
        f"objective.{name}": 0.0
        for name in _WORDS_OF_A_LOSS
        if getattr(run.objective, name, 0.0) > least.get(name, 0.0)
    }


def _leash(factor: float) -> ConfigChange:
    def change(run: config.Run) -> Changes:
        beta = getattr(run.objective, "beta", None)
        return {"objective.beta": near(beta * factor)} if beta else {}

    return change


def _more_answers(run: config.Run) -> Changes:
    if not isinstance(run.objective, config.PolicyGradient):
        return {}
    return {
        "objective.n_samples": 2 * run.objective.n_samples,
        "training.batch_size": 2 * run.training.batch_size,
        "training.accumulation": 2 * run.training.accumulation,
    }


def _plain_temperature(run: config.Run) -> Changes:
    is_needed = isinstance(run.objective, config.PolicyGradient) and run.objective.temperature != 1
    return {"objective.temperature": 1.0} if is_needed else {}


def _dropouts(run: config.Run) -> Iterator[tuple[str, float]]:
    """Every dropout that stands alone in a table, by its path."""
    parts: list[tuple[str, Any]] = [("model.head", run.model.head), ("trained", run.trained)]
    for name in ("encoder", "decoder"):
        stack = getattr(run.model, name)
        if stack is not None:
            parts.append((f"model.{name}", stack))
            parts.append((f"model.{name}.attention", stack.attention))
    for path, part in parts:
        if part is not None and any(field.name == "dropout" for field in fields(part)):
            yield f"{path}.dropout", part.dropout


def _dropout(run: config.Run) -> Changes:
    return {path: 0.1 for path, dropout in _dropouts(run) if dropout > 0.3}


def _no_dropout(run: config.Run) -> Changes:
    return {path: 0.0 for path, dropout in _dropouts(run) if dropout > 0}


def _some_dropout(run: config.Run) -> Changes:
    stacks = {"model.encoder.dropout", "model.decoder.dropout"}
    return {path: 0.1 for path, dropout in _dropouts(run) if dropout == 0 and path in stacks}


def _documents_apart(run: config.Run) -> Changes:
    attends = all(
        isinstance(layer, config.MultiHead) for stack in run.model.stacks for layer in stack.pattern
    )
    if not config.continues_text(run.objective) or not attends or run.training.documents_apart:
        return {}
    return {"training.documents_apart": True}


def _drop_duplicates(run: config.Run) -> Changes:
    return {} if run.text.drop_duplicates else {"text.drop_duplicates": True}


def _thaw(run: config.Run) -> Changes:
    return {"trained": None} if isinstance(run.trained, config.LastLayers) else {}


TRAINING_FIXES: Mapping[str, ConfigChange] = {
    **{name: _rate(factor) for name, factor in RATES.items()},
    "rate_usual": _rate_usual,
    "warm_up_longer": _warm_up_longer,
    "warm_up_shorter": _warm_up_shorter,
    "clip": _clip,
    "clip_looser": _clip_looser,
    "eps": _eps,
    "beta2": _beta2,
    "betas": _betas,
    "momentum": _momentum,
    "decay": _decay,
    "no_decay": _no_decay,
    "no_penalties": _no_penalties,
    "larger_batch": _larger_batch,
    "float32": _float32,
    "z_loss": _z_loss,
    "plain_loss": _plain_loss,
    "longer_leash": _leash(1 / 3),
    "shorter_leash": _leash(3),
    "more_answers": _more_answers,
    "plain_temperature": _plain_temperature,
    "dropout": _dropout,
    "no_dropout": _no_dropout,
    "some_dropout": _some_dropout,
    "documents_apart": _documents_apart,
    "drop_duplicates": _drop_duplicates,
    "thaw": _thaw,
}
