"""One line for any loop: `with watch(model, optimizer) as w`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from torch import nn

from pellucid.errors import ConfigError
from pellucid.vitals.logs import log_to
from pellucid.vitals.loop_watch import Watch
from pellucid.vitals.overhead_budget import MAX_OVERHEAD
from pellucid.vitals.probe import Probe
from pellucid.vitals.rules import rules_of
from pellucid.vitals.schedule import share_of
from pellucid.vitals.taps.trained_parts import has_forward, trained_part
from pellucid.vitals.update_sizes import Optimisers

#: Options that a trainer fills in.
_OF_THE_LOOP = ("model", "optimizer", "clip_norm")


def watch(
    model: nn.Module,
    optimizer: Optimisers | None = None,
    *,
    probe: Probe | Literal[False] | None = None,
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

    Without `with`, the first `w.step` begins the watch, behind the update that it belongs to, and
    `w.close()` ends it.

    Args:
        model: The model that you train. Of a module without a forward of its own, the only part
            that trains is watched.
        optimizer: One, or several that step together, in the order in which they step. Without
            one, `w.step` says when an update is done, and gradients are not watched.
        probe: Fixed rows for the readings; by default the first rows of the first batch. Then
            pellucid also repeats your loop's first call a few times with other inputs, to see what
            its outputs depend on: at most 30 forward passes, once, and never with False.
        reference: A model that this one should stay close to; called with the same arguments.
        clip_norm: The norm at which your loop clips gradients, if it does.
        max_overhead: The largest share of the training's time, from its thousandth update or
            twentieth second, whichever is earlier, but not before its hundredth update: until
            then readings may be on credit. None for no bound.
        log: Where signs are written: a path (.jsonl), a SummaryWriter, a wandb run, or a
            function of a dict and a step.
        thresholds: A TOML file with rules that override the package's.

    No error reaches your loop, not even one of your listener or `log`. pellucid reports it once
    through Python's `logging` and switches that part off (`w.guard.off`, `w.missing`).

    Raises:
        ConfigError: The model has nothing to train, or an argument cannot be used.
    """
    return Watch(
        model if has_forward(model) else trained_part(model),
        optimizer,
        probe=probe,
        reference=reference,
        clip_norm=clip_norm,
        max_overhead=max_overhead,
        log=log,
        thresholds=thresholds,
    )


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Check options of `watch` now that a trainer uses later.

    Raises:
        ConfigError: There is no such option, or its value cannot be used.
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
