"""The cheapest layouts that fit, best first."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product

from pellucid.config import Run
from pellucid.counting import Layout
from pellucid.errors import ConfigError
from pellucid.planning.kinds import Kind
from pellucid.planning.plan import Plan, fits, memory_of, predict
from pellucid.planning.setting import Setting, layout_of, make_setting

#: The most devices that are tried, and how many layouts are proposed.
_MOST_DEVICES, _PROPOSED = 64, 8
_SHARDS = ("none", "full", "node")
_RECOMPUTE = ("none", "selective", "full")


def propose(run: Run, kind: Kind, *, assume: Iterable[str] = ()) -> list[Plan]:
    """The best plan for each number of devices that fits, the cheapest first.

    The batch stays as it is. For each layout the fewest parts that fit are taken: larger passes
    are faster. Plans whose price differs by less than 1% are in the order of their speed.

    Args:
        run: The config.
        kind: The kind of each device.
        assume: Assumptions, as for `plan_training`.

    Raises:
        ConfigError: nothing fits; says what came nearest. Or as `plan_training`.
    """
    assume = tuple(assume)
    best: list[Plan] = []
    nearest: Plan | None = None
    for devices in _device_counts(kind):
        plans = list(_plans(run, kind, devices, assume))
        fitting = [plan for plan in plans if plan.fits]
        best += sorted(fitting, key=_price)[:2]
        for plan in plans:
            if nearest is None or plan.memory_per_device < nearest.memory_per_device:
                nearest = plan
    if not best:
        if nearest is None:
            make_setting(run, kind, layout_of(run, kind, 1), assume)  # for its refusal
        need = "" if nearest is None else f": it needs {nearest.memory_per_device / 2**30:.1f} GiB"
        raise ConfigError(
            f"no layout on up to {_MOST_DEVICES} devices fits{need} of "
            f"{kind.memory / 2**30:.1f} GiB on each: take another kind of device, a smaller model, "
            "or a shorter context"
        )
    return sorted(best, key=lambda plan: (round(_price(plan), 2), plan.step_seconds))[:_PROPOSED]


def _price(plan: Plan) -> float:
    """Dollars for the work; device seconds, if the devices have no price."""
    return plan.dollars_per_billion_tokens or plan.step_seconds * plan.setting.layout.devices


def _device_counts(kind: Kind) -> Iterator[int]:
    devices = 1
    while devices <= _MOST_DEVICES:
        if devices <= kind.node or devices % kind.node == 0:
            yield devices
        devices *= 2


def _plans(run: Run, kind: Kind, devices: int, assume: tuple[str, ...]) -> Iterator[Plan]:
    """For each layout of so many devices the plan with the fewest parts that fit, or the last."""
    for shard, tensor, recompute in product(_SHARDS, (1, 2, 4, 8), _RECOMPUTE):
        if tensor > min(devices, kind.node) or (shard == "node" and devices <= kind.node):
            continue
        if shard == "full" and devices == tensor:
            continue
        layout = layout_of(run, kind, devices, shard=shard, tensor=tensor, recompute=recompute)
        settings = _settings(run, kind, layout, assume)
        if not settings:  # this layout divides neither the batch nor the model
            continue
        # fewer parts need more memory: the first that fits has the largest passes
        first = bisect_left(settings, True, key=lambda setting: fits(setting, memory_of(setting)))
        yield predict(settings[min(first, len(settings) - 1)])


def _settings(run: Run, kind: Kind, layout: Layout, assume: tuple[str, ...]) -> list[Setting]:
    """The settings of all accumulations that cut the batch equally, the fewest parts first."""
    settings: list[Setting] = []
    for parts in _part_counts(run, layout):
        training = replace(run.training, accumulation=parts)
        try:
            settings.append(make_setting(replace(run, training=training), kind, layout, assume))
        except ConfigError:
            return []
    return settings


def _part_counts(run: Run, layout: Layout) -> Iterator[int]:
    """Accumulations that cut the batch equally, the fewest parts first."""
    rows, left_over = divmod(run.training.batch_size, layout.data)
    if left_over:
        return
    for parts in range(1, rows + 1):
        if rows % parts == 0:
            yield parts * layout.data
