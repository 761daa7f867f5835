"""The flags of every command that starts a run, and the run that they describe."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import EPOCHS, MINUTES, SEED, STEPS, integer
from pellucid.cli.flags.shared import add_force, add_settings
from pellucid.cli.output.train_summary import TrainSummary, print_summary
from pellucid.errors import CheckpointError, ConfigError, Interrupted, RunError
from pellucid.parallel import leads

if TYPE_CHECKING:
    from pellucid.runs import Run
    from pellucid.training import Interrupts, Observer, Watcher


def add_run_flags(parser: Any) -> None:
    """Add the flags of a run with any objective."""
    parser.add_argument("--field", metavar="F", help="the field of a table that holds the text")
    parser.add_argument(
        "--config", metavar="FILE", help="TOML file with settings that override the preset"
    )
    parser.add_argument("--out", metavar="RUN", help="the run's folder (default: a new runs/...)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=STEPS, metavar="N", help="train for N updates")
    length.add_argument("--tokens", type=integer(), metavar="N", help="train on N tokens")
    length.add_argument("--minutes", type=MINUTES, metavar="N", help="train for about N minutes")
    length.add_argument("--epochs", type=EPOCHS, metavar="N", help="go N times through the data")
    parser.add_argument("--seed", type=SEED, metavar="S", help="seed of weights, order and dropout")
    parser.add_argument("--device", metavar="D", help="auto, cpu, cuda, cuda:1")
    add_settings(parser, example="model.decoder.n_layers=6")
    parser.add_argument(
        "--observe",
        action="append",
        default=[],
        choices=("tensorboard", "wandb", "trackio", "mlflow"),
        help="also log the run to this tool (an optional extra); may be repeated",
    )
    parser.add_argument(
        "--film",
        action="append",
        default=[],
        metavar="SENTENCE",
        help="record the inside of a sentence at up to 64 moments; may be repeated",
    )
    add_force(parser)
    parser.add_argument(
        "--no-vitals",
        action="store_true",
        help="do not watch softmax, cross-entropy, KL, gradients and variance (2%% of the time)",
    )


def train_from_flags(arguments: argparse.Namespace, paths: Sequence[str], **choices: Any) -> None:
    """Train the run that the flags and `choices` describe; then print its results."""
    with observed(arguments) as (result, observers):
        run = start_training(arguments, paths, observers, **choices)
    if leads():
        print_summary(arguments, run, result)


def start_training(
    arguments: argparse.Namespace,
    paths: Sequence[str],
    observers: Sequence[Observer],
    **choices: Any,
) -> Run:
    """Train the run that the flags and `choices` describe."""
    from pellucid import runs

    return runs.train(
        paths,
        field=arguments.field,
        preset=arguments.preset,
        config_file=arguments.config,
        out=arguments.out,
        steps=arguments.steps,
        tokens=arguments.tokens,
        minutes=arguments.minutes,
        epochs=arguments.epochs,
        seed=arguments.seed,
        device=arguments.device,
        settings=arguments.set,
        observers=observers,
        watchers=watchers_for(arguments),
        show=not arguments.json,
        force=arguments.force,
        **choices,
    )


def resume_training(
    arguments: argparse.Namespace,
    folder: str,
    observers: Sequence[Observer],
    interrupts: Interrupts | None = None,
) -> Run:
    """Resume the run in a folder with the flags of `pellucid train`.

    Args:
        arguments: the flags.
        folder: the run, or one of its checkpoints.
        observers: functions that are called with every event.
        interrupts: lets an observer stop the run.
    """
    from pellucid import runs

    return runs.resume(
        folder,
        steps=arguments.steps,
        reward=getattr(arguments, "reward", None),
        observers=observers,
        watchers=watchers_for(arguments),
        show=not arguments.json,
        allow_drift=arguments.allow_drift,
        force=arguments.force,
        interrupts=interrupts,
    )


@contextmanager
def observed(arguments: argparse.Namespace) -> Generator[tuple[TrainSummary, list[Observer]]]:
    """A summary of the run for its end, and all its observers.

    Raises:
        Interrupted: with the command that continues the run.
    """
    result = TrainSummary(getattr(arguments, "reward", None))
    # first, so that you learn of a missing package at once
    observers = [result, *_observers(arguments.observe)]
    try:
        yield result, observers
        arguments.when_stopped = "at once; the run is finished and saved"
    except Interrupted as stop:
        if not result.resume_command:
            raise
        command = f"{stop}; continue with: {result.resume_command}"
        raise Interrupted(command, stop.signal) from None
    except (CheckpointError, RunError) as error:  # a disk that is full
        if not result.resume_command:
            raise
        raise type(error)(f"{error}: {result.resume_command}") from error
    except ConfigError as error:  # a reward that failed
        if not result.resume_command:
            raise
        raise ConfigError(
            f"{error}. Nothing is lost; repair that, then continue with: {result.resume_command}"
        ) from error


def watchers_for(arguments: argparse.Namespace) -> list[Watcher]:
    """The watchers of a run: vital signs, unless `--no-vitals`, and films.

    A resumed run continues its films.
    """
    watchers: list[Watcher] = []
    if not arguments.no_vitals:
        from pellucid.vitals import watcher

        watchers.append(watcher())
    if arguments.film or getattr(arguments, "resume", None) is not None:
        from pellucid.explain import film

        watchers.append(film(*arguments.film))
    return watchers


def _observers(names: Sequence[str]) -> list[Observer]:
    if not names:
        return []
    from pellucid.diagnosis.insights import RunInsights
    from pellucid.observers import observer_for

    insights = RunInsights()
    return [observer_for(name, insights=insights) for name in dict.fromkeys(names)]
