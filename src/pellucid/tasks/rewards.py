"""The reward of an answer: a function that the user names, or a trained classifier.

pellucid runs code because the user's own command names it, and never because a file does.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from pellucid import config
from pellucid.errors import ConfigError
from pellucid.inference.classification import classify
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.load import load
from pellucid.saved_runs.records import read_events
from pellucid.saved_runs.seal import Change
from pellucid.tasks import Reward
from pellucid.training import Drifted, Event, Started

#: The name of the reward among the facts of `Started` and among changes.
REWARD = "reward"
_EXPECTED = (
    "expected MODULE:FUNCTION, a function of (row, answer) that gives a number, or RUN:CLASS, a "
    "run of a classifier and the class whose probability is the reward"
)


def find_reward(objective: config.Objective, name: str | None) -> Reward | None:
    """The reward of this name; None if the objective has no reward.

    Raises:
        ConfigError: the objective needs a reward and has no name, or the reverse; or nothing has
            this name.
    """
    takes_reward = isinstance(objective, config.PolicyGradient)
    if not takes_reward:
        if name is not None:
            raise ConfigError(
                f"--reward {name}: objective {type(objective).__name__} has no reward; leave it "
                "out, or choose --objective policy-gradient"
            )
        return None
    if name is None:
        raise ConfigError(f"objective PolicyGradient needs --reward: {_EXPECTED}")
    source, colon, selector = name.rpartition(":")
    if not colon or not selector:
        raise ConfigError(f"--reward {name}: {_EXPECTED}")
    return _classifier(source, selector) if Path(source).exists() else _function(source, selector)


def check_same_reward(objective: config.Objective, folder: RunFolder, name: str | None) -> None:
    """Refuse to resume a run with another reward than it was trained with.

    The recorded name is compared and shown. pellucid never runs it.

    Args:
        objective: the objective of the run.
        folder: the run's folder.
        name: the reward that the user names.

    Raises:
        ConfigError: the user names no reward, or another.
    """
    if not isinstance(objective, config.PolicyGradient):
        return
    trained_reward = _find_trained_reward(read_events(folder.metrics))
    if trained_reward in (None, name):
        return
    if name is None:
        raise ConfigError(
            f"{folder.path} was trained for --reward {trained_reward}. pellucid runs code "
            "only if your command names it, never because a file does: pass --reward again"
        )
    raise ConfigError(
        f"--reward {name}: {folder.path} was trained for {trained_reward}: start a new run with "
        f"--objective policy-gradient --from {folder.path}, or pass --allow-drift too"
    )


def reward_changes(
    objective: config.Objective, events: Iterable[Event], name: str | None
) -> list[Change]:
    """The change of the reward, if the user names another than the run was trained with.

    Args:
        objective: the objective of the run.
        events: all events of the run.
        name: the reward that the user names.
    """
    trained_reward = _find_trained_reward(events)
    if (
        not isinstance(objective, config.PolicyGradient)
        or None in (trained_reward, name)
        or trained_reward == name
    ):
        return []
    return [Change(REWARD, str(trained_reward), str(name))]


def _find_trained_reward(events: Iterable[Event]) -> str | None:
    """The reward at the start of a run, or after the last change that the user allowed."""
    reward: str | None = None
    for event in events:
        if isinstance(event, Started):
            reward = dict(event.facts).get(REWARD)
        elif isinstance(event, Drifted):
            reward = next(
                (new_reward for key, _, new_reward in event.changes if key == REWARD), reward
            )
    return reward


def _function(module: str, function: str) -> Reward:
    try:
        reward_function = getattr(import_module(module), function)
    except ImportError as error:
        raise ConfigError(f"--reward {module}:{function}: {error}; {_EXPECTED}") from None
    except AttributeError:
        raise ConfigError(
            f"--reward {module}:{function}: {module} has no {function!r}; {_EXPECTED}"
        ) from None
    if not callable(reward_function):
        raise ConfigError(f"--reward {module}:{function}: is no function; {_EXPECTED}")
    name = f"{module}:{function}"
    return Reward(name, _check_values(name, cast("Callable[..., Any]", reward_function)))


def import_module(name: str) -> ModuleType:
    """The module of this name: from the working folder, or else as Python finds it.

    Only this module is looked for in the working folder first. For its own imports the folder comes
    last, so that a json.py in it does not replace the standard library's.
    """
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.append(folder)
    top = name.partition(".")[0]
    spec = None if top in sys.modules else PathFinder.find_spec(top, [folder])
    if spec is not None and spec.loader is not None:
        sys.modules[top] = module = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[top]
            raise
    return importlib.import_module(name)


def _check_values(
    name: str, function: Callable[..., Any]
) -> Callable[[dict[str, object], str], float]:
    """The function; if it raises or returns no number, the error names the row."""

    def reward(row: dict[str, object], answer: str) -> float:
        try:
            value = float(function(row, answer))
        except Exception as error:
            raise ConfigError(
                f"--reward {name} failed with {type(error).__name__}: {error}; for the answer "
                f"{answer[:80]!r} to {str(row)[:120]}"
            ) from error
        if not math.isfinite(value):
            raise ConfigError(
                f"--reward {name} gave {value}, which is no reward; for the answer "
                f"{answer[:80]!r} to {str(row)[:120]}"
            )
        return value

    return reward


def _classifier(path: str, label: str) -> Reward:
    run = load(path)
    head = run.config.model.head
    if not isinstance(head, config.ClassificationHead):
        raise ConfigError(f"--reward {path}:{label}: {path} is no run of a classifier; {_EXPECTED}")
    classes = head.classes or ()
    if label not in classes:
        raise ConfigError(
            f"--reward {path}:{label}: the classifier has no class {label!r}; it has: "
            f"{', '.join(classes)}"
        )

    def reward(row: dict[str, object], answer: str) -> float:
        del row
        if not answer.strip():  # an empty text is of no class
            return 0.0
        (classified,) = classify(run, answer)
        return next(share.probability for share in classified.shares if share.name == label)

    return Reward(f"{path}:{label}", reward)
