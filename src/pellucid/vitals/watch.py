"""One line for any loop: `with watch(model, optimizer) as w`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from pellucid.errors import ConfigError
from pellucid.vitals.logs import log_to
from pellucid.vitals.loop_watch import Watch
from pellucid.vitals.overhead_budget import MAX_OVERHEAD
from pellucid.vitals.probe import Probe
from pellucid.vitals.rules import rules_of
from pellucid.vitals.schedule import share_of
from pellucid.vitals.update_sizes import Optimisers

#: What a trainer knows by itself.
_OF_THE_LOOP = ("model", "optimizer", "clip_norm")


def watch(
    model: nn.Module,
    optimizer: Optimisers | None = None,
    *,
    probe: Probe | None = None,
    reference: nn.Module | None = None,
    clip_norm: float | None = None,
    max_overhead: float | None = MAX_OVERHEAD,
    log: object = None,
    thresholds: str | Path | None = None,
) -> Watch:
    """Watch a training for the five things that go wrong.

        with pellucid.vitals.watch(model, optimizer) as w:
            ...                      # the loop as it was
            w.step(loss)             # may be left out: then the loss is not watched
        print(w.report())

    Args:
        optimizer: one, or several that step together, in the order in which they step. Without
            one, `w.step` says when an update is done, and gradients are not watched.
        probe: fixed rows to look at the model through; by default the first batch's first rows.
        reference: a model that this one is not to leave; called as this one is.
        clip_norm: what gradients are clipped at, where they are.
        max_overhead: of the training's time, at most, from its hundredth update or twentieth second
            on, whichever is later: until then looks may be on credit. None for no bound.
        log: where signs are written to: a path (.jsonl), a SummaryWriter, a wandb run, or a
            function of a dict and a step.
        thresholds: a TOML file laid over the package's own.

    Nothing of it raises into the loop, a listener or `log` of yours neither: what raises is
    reported once, by Python's `logging`, and switched off (`w.guard.off`, `w.missing`).

    Raises:
        ConfigError: the model has nothing to train, or an argument cannot be used.
    """
    return Watch(
        model,
        optimizer,
        probe=probe,
        reference=reference,
        clip_norm=clip_norm,
        max_overhead=max_overhead,
        log=log,
        thresholds=thresholds,
    )


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `watch` that a trainer hands over later: what cannot be used is refused now.

    Raises:
        ConfigError: there is no such option, or its value cannot be used.
    """
    option_names = [
        name for name in inspect.signature(watch).parameters if name not in _OF_THE_LOOP
    ]
    for name in options:
        if name not in option_names:
            raise ConfigError(f"there is no option {name!r}; there are: {', '.join(option_names)}")
    rules_of(options.get("thresholds"))
    share_of(options.get("max_overhead"))
    if options.get("log") is not None:
        log_to(options["log"])
    return dict(options)
