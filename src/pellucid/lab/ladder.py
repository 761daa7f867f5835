"""The ladder of a scaling law: one config in several sizes, each trained for several lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, assert_never, cast

from pellucid import config
from pellucid.config import decode, encode
from pellucid.counting import parameter_count
from pellucid.display.numbers import short
from pellucid.errors import ConfigError
from pellucid.lab.experiment import Variant
from pellucid.lab.flops import flops_budget
from pellucid.runs.build import with_vocabulary
from pellucid.runs.prepare import ready_data
from pellucid.saved_runs.progress import silent

#: The longest training of each size, and the shorter ones, as shares of the budget.
SHARES = (0.25, 0.5, 1.0)
#: A law of three terms needs three sizes.
LEAST_SIZES = 3
#: Without a list, a size has so many times the weights of the one before.
_STEP = 2.0
#: Widths are multiples of this, which processors like, and small ones at least even.
_MULTIPLE, _SMALL = 8, 32
#: Halvings of the range of widths until the size is found.
_HALVINGS = 40


class Rung(NamedTuple):
    """A size of the ladder: its config, with the vocabulary known, and its weights."""

    run: config.Run
    n_weights: int


def ladder(run: config.Run, sizes: int | Sequence[int]) -> list[Rung]:
    """The sizes to train, and last the next one, which the law predicts.

    The widths of the model change, all by the same factor: d_model, d_ff, and the widths of heads.
    Its layers, its heads and all other settings stay.

    Args:
        run: the config.
        sizes: how many, up to the config's own; or how many weights each has.

    Raises:
        ConfigError: fewer than three sizes, or such that no widths give them.
        TextError: the data, which decide the vocabulary, cannot be read.
    """
    run = with_vocabulary(run, ready_data(run, silent).tokenizer)
    if isinstance(sizes, int):
        n_weights = parameter_count(run.model)
        targets = [n_weights / _STEP**i for i in reversed(range(sizes))]
    else:
        targets = sorted(map(float, set(sizes)))
    if len(targets) < LEAST_SIZES:
        raise ConfigError(f"a law needs at least {LEAST_SIZES} sizes, was {len(targets)}")
    targets.append(targets[-1] ** 2 / targets[-2])
    rungs = [resized(run, target) for target in targets]
    counts = [rung.n_weights for rung in rungs]
    if len(set(counts)) < len(counts):
        names = ", ".join(map(short, counts))
        raise ConfigError(
            f"the widths of this model give {names} weights, and these are not all different: name "
            "sizes further apart, such as --sizes 100k,200k,400k, or start from a larger config"
        )
    return rungs


def resized(run: config.Run, n_weights: float) -> Rung:
    """The config with other widths, so that it has about so many weights.

    Args:
        run: the config, with its vocabulary known.
        n_weights: the weights to come close to.
    """
    low, high = 1e-4, 1e4
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        if parameter_count(_widened(run, middle).model) < n_weights:
            low = middle
        else:
            high = middle
    sizes = [_widened(run, factor) for factor in (low, high)]
    rungs = [Rung(run, parameter_count(run.model)) for run in sizes]
    return min(rungs, key=lambda rung: abs(rung.n_weights - n_weights))


def lengths(rung: Rung, name: str, flops: float | None) -> list[Variant]:
    """The trainings of a size, the shortest first.

    Args:
        rung: the size.
        name: the name of the ladder.
        flops: the budget of the longest training; by default the config's own.

    Raises:
        ConfigError: the budget is too small for the shorter ones.
    """
    runs = [
        _with_budget(
            rung.run,
            flops_budget(rung.run, flops * share) if flops else _shortened(rung.run, share),
        )
        for share in SHARES
    ]
    return [
        Variant(name=f"{name}-{short(rung.n_weights)}-{share:g}", run=run)
        for share, run in zip(SHARES, runs, strict=True)
    ]


def _with_budget(run: config.Run, budget: config.Budget) -> config.Run:
    return replace(run, training=replace(run.training, budget=budget))


def _shortened(run: config.Run, share: float) -> config.Budget:
    """A share of the config's own budget."""
    budget = run.training.budget
    match budget:
        case config.Steps(count=count) | config.Tokens(count=count):
            if count * SHARES[0] < 1:
                raise ConfigError(
                    f"a budget of {count} cannot be cut into quarters: give a longer one"
                )
            return type(budget)(count=round(count * share))
        case config.Minutes(count=minutes):
            return config.Minutes(count=minutes * share)
        case config.Epochs(count=epochs):
            return config.Epochs(count=epochs * share)
        case _:
            assert_never(budget)


def _widened(run: config.Run, factor: float) -> config.Run:
    """The config with every width times a factor: in a config, widths are called d_... or width."""
    table = _scaled(encode(run.model), factor)
    return replace(run, model=decode(config.Transformer, table, "model"))


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, list | tuple):
        return [_scaled(item, factor) for item in cast("Sequence[Any]", value)]
    if not isinstance(value, Mapping):
        return value
    table = cast("Mapping[str, Any]", value)
    return {
        key: _rounded(item * factor) if _is_width(key, item) else _scaled(item, factor)
        for key, item in table.items()
    }


def _is_width(key: str, value: object) -> bool:
    return isinstance(value, int) and (key.startswith("d_") or key == "width")


def _rounded(width: float) -> int:
    multiple = _MULTIPLE if width >= _SMALL else 2
    return max(multiple, round(width / multiple) * multiple)
