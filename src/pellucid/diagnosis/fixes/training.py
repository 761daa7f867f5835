"""Fixes of the training: the config changes of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, assert_never

from pellucid import config

#: Values by path; None removes a value.
Changes = dict[str, Any]
ConfigChange = Callable[[config.Run], Changes]

_MOST_WARM_UP = 0.3
_USUAL_DECAY, _USUAL_BETA2 = 0.1, 0.95
#: SGD's usual learning rate.
SGD_RATE = 0.1
#: Terms that are added to a loss, and the largest value that `plain_loss` keeps.
_LOSS_TERMS = {"label_smoothing": 0.0, "entropy_bonus": 0.0, "z_loss": 1e-3}


#: Fixes that multiply the learning rate, and their factors.
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


def round_number(value: float) -> float:
    """The number with three significant digits."""
    return float(f"{value:.3g}")


def _rate(factor: float) -> ConfigChange:
    return lambda run: {
        f"{path}.learning_rate": round_number(optimiser.learning_rate * factor)
        for path, optimiser in _optimisers(run)
    }


def _rate_usual(run: config.Run) -> Changes:
    """The usual learning rate, if this run has a higher one."""
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
    """A warm-up three times as long, enough for Adam's memory, at most 0.3 of the run."""
    warm_up, longest = run.schedule.warm_up, _MOST_WARM_UP
    if isinstance(run.schedule, config.WarmUpStableDecay):
        longest = min(longest, 1 - run.schedule.decay)
    budget = run.training.budget
    memory = [2 / (1 - adam.betas[1]) for _, adam in _adams(run)]
    steps = budget.count if isinstance(budget, config.Steps) else None
    for_memory = 0.1 if steps is None else max(memory, default=0.0) / steps
    target = min(longest, max(3 * warm_up, for_memory, 0.02))
    return {"schedule.warm_up": round_number(target)} if target > warm_up else {}


def _beta2(run: config.Run) -> Changes:
    return {
        f"{path}.betas": (adam.betas[0], _USUAL_BETA2)
        for path, adam in _adams(run)
        if adam.betas[1] > _USUAL_BETA2
    }


def _decay(limit: float) -> ConfigChange:
    """Weight decay of at most so much, and no L2 through the gradient."""

    def change(run: config.Run) -> Changes:
        changes: Changes = {}
        for path, optimiser in _optimisers(run):
            match optimiser:
                case config.AdamW() | config.Muon():
                    if optimiser.weight_decay > limit:
                        changes[f"{path}.weight_decay"] = limit
                case config.Adam() | config.SGD():
                    if optimiser.l2 > 0:
                        changes[f"{path}.l2"] = 0.0
                case _:
                    assert_never(optimiser)
        return changes

    return change


def _larger_batch(run: config.Run) -> Changes:
    training, growth = run.training, run.training.growth
    grows = isinstance(growth, config.GrowingBatch)
    return {
        "training.batch_size": 4 * training.batch_size,
        "training.accumulation": 4 * training.accumulation,
        **({"training.growth.first": 4 * growth.first} if grows else {}),
    }


def _plain_loss(run: config.Run) -> Changes:
    """Cross-entropy without added terms; a weak z-loss may stay."""
    return {
        f"objective.{name}": 0.0
        for name, limit in _LOSS_TERMS.items()
        if getattr(run.objective, name, 0.0) > limit
    }


def _leash(factor: float) -> ConfigChange:
    def change(run: config.Run) -> Changes:
        beta = getattr(run.objective, "beta", None)
        return {"objective.beta": round_number(beta * factor)} if beta else {}

    return change


def _more_answers(run: config.Run) -> Changes:
    if not isinstance(run.objective, config.PolicyGradient):
        return {}
    return {
        "objective.n_samples": 2 * run.objective.n_samples,
        "training.batch_size": 2 * run.training.batch_size,
        "training.accumulation": 2 * run.training.accumulation,
    }


def _dropouts(run: config.Run) -> Iterator[tuple[str, float]]:
    """Every dropout with a key of its own, by its path."""
    parts: list[tuple[str, Any]] = [("model.head", run.model.head), ("trained", run.trained)]
    for name in ("encoder", "decoder"):
        stack = getattr(run.model, name)
        if stack is not None:
            parts.append((f"model.{name}", stack))
            parts.append((f"model.{name}.attention", stack.attention))
            if stack.embedding_dropout is not None:
                yield f"model.{name}.embedding_dropout", stack.embedding_dropout
    for path, part in parts:
        if part is not None and any(field.name == "dropout" for field in fields(part)):
            yield f"{path}.dropout", part.dropout


def _lower_dropout(limit: float, target: float) -> ConfigChange:
    """A dropout of `target` instead of each that is above `limit`."""
    return lambda run: {path: target for path, dropout in _dropouts(run) if dropout > limit}


def _some_dropout(run: config.Run) -> Changes:
    stacks = {"model.encoder.dropout", "model.decoder.dropout"}
    return {path: 0.1 for path, dropout in _dropouts(run) if dropout == 0 and path in stacks}


def _documents_apart(run: config.Run) -> Changes:
    attends = all(
        isinstance(layer.attention, config.MultiHead)
        for stack in run.model.stacks
        for layer in stack.layer_counts
    )
    if not config.continues_text(run.objective) or not attends or run.training.documents_apart:
        return {}
    return {"training.documents_apart": True}


def _set(path: str, value: Any, applies: Callable[[config.Run], bool]) -> ConfigChange:
    """One value at one path, in the runs to which the fix applies."""
    return lambda run: {path: value} if applies(run) else {}


TRAINING_FIXES: Mapping[str, ConfigChange] = {
    **{name: _rate(factor) for name, factor in RATES.items()},
    "rate_usual": _rate_usual,
    "warm_up_longer": _warm_up_longer,
    "warm_up_shorter": _set("schedule.warm_up", 0.05, lambda run: run.schedule.warm_up > 0.2),
    "clip": _set("training.clip_norm", 1.0, lambda run: (run.training.clip_norm or 2.0) > 1),
    "clip_looser": _set("training.clip_norm", 1.0, lambda run: (run.training.clip_norm or 2.0) < 1),
    "eps": lambda run: {f"{path}.eps": 1e-8 for path, adam in _adams(run) if adam.eps > 1e-8},
    "beta2": _beta2,
    "betas": lambda run: {f"{path}.betas": (0.9, _USUAL_BETA2) for path, _ in _adams(run)},
    "momentum": _set(
        "optimiser.momentum", 0.9, lambda run: getattr(run.optimiser, "momentum", 0.0) > 0.95
    ),
    "decay": _decay(_USUAL_DECAY),
    "no_decay": _decay(0.0),
    "no_penalties": _set("penalties", (), lambda run: bool(run.penalties)),
    "larger_batch": _larger_batch,
    "float32": _set(
        "training.precision", "float32", lambda run: run.training.precision != "float32"
    ),
    "z_loss": _set(
        "objective.z_loss", 1e-4, lambda run: getattr(run.objective, "z_loss", 1.0) < 1e-4
    ),
    "plain_loss": _plain_loss,
    "longer_leash": _leash(1 / 3),
    "shorter_leash": _leash(3),
    "more_answers": _more_answers,
    "plain_temperature": _set(
        "objective.temperature",
        1.0,
        lambda run: (
            isinstance(run.objective, config.PolicyGradient) and run.objective.temperature != 1
        ),
    ),
    "dropout": _lower_dropout(0.3, 0.1),
    "no_dropout": _lower_dropout(0.0, 0.0),
    "some_dropout": _some_dropout,
    "documents_apart": _documents_apart,
    "drop_duplicates": _set("text.drop_duplicates", True, lambda run: not run.text.drop_duplicates),
    "thaw": _set("trained", None, lambda run: isinstance(run.trained, config.LastLayers)),
}
