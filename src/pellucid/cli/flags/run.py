"""The flags of every command that starts a run, and the run that they describe.

Comes in: flags. Goes out: a trained run, and what is said of it. It does not know what is learnt.
"""

from __future__ import annotations

import argparse
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import EPOCHS, MINUTES, SEED, STEPS, whole
from pellucid.cli.output.streams import add_force
from pellucid.cli.output.train_summary import Result, say_outcome
from pellucid.errors import CheckpointError, ConfigError, Interrupted, RunError

if TYPE_CHECKING:
    from pellucid.runs import Run
    from pellucid.training import Observer, Watcher


def add_run_flags(parser: Any) -> None:
    """What is said of a run whatever it learns."""
    parser.add_argument("--field", metavar="F", help="the field of a table that holds the text")
    parser.add_argument("--config", metavar="FILE", help="TOML file that says what differs")
    parser.add_argument("--out", metavar="RUN", help="the run's folder (default: a new runs/...)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=STEPS, metavar="N", help="train for N updates")
    length.add_argument("--tokens", type=whole(), metavar="N", help="train on N tokens")
    length.add_argument("--minutes", type=MINUTES, metavar="N", help="train for about N minutes")
    length.add_argument("--epochs", type=EPOCHS, metavar="N", help="go N times through the data")
    parser.add_argument("--seed", type=SEED, metavar="S", help="of weights, order and dropout")
    parser.add_argument("--device", metavar="D", help="auto, cpu, cuda, cuda:1, mps")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="any value of the config, such as model.decoder.n_layers=6",
    )
    parser.add_argument(
        "--observe",
        action="append",
        default=[],
        choices=("tensorboard", "wandb"),
        help="also write the run for this tool (an optional extra); may be given twice",
    )
    parser.add_argument(
        "--film",
        action="append",
        default=[],
        metavar="SENTENCE",
        help="keep what a sentence looks like inside, at up to 64 moments; may be given again",
    )
    add_force(parser)
    parser.add_argument(
        "--no-vitals",
        action="store_true",
        help="do not watch softmax, cross-entropy, KL, gradients and variance (2%% of the time)",
    )


def train_as_said(arguments: argparse.Namespace, paths: Sequence[str], **choices: Any) -> None:
    """Train what the flags and `choices` describe; then say what came of it."""
    with observed(arguments) as (result, observers):
        run = begin_as_said(arguments, paths, observers, **choices)
    say_outcome(run, result, as_json=arguments.json)


def begin_as_said(
    arguments: argparse.Namespace,
    paths: Sequence[str],
    observers: Sequence[Observer],
    **choices: Any,
) -> Run:
    """Train what the flags and `choices` describe."""
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


@contextmanager
def observed(arguments: argparse.Namespace) -> Generator[tuple[Result, list[Observer]]]:
    """What is kept of a run for its end, and everything that observes it.

    Raises:
        Interrupted: with the command that goes on with the run.
    """
    result = Result(getattr(arguments, "reward", None))
    # made before anything else, so that a missing package is said at once
    observers = [result, *_observers(arguments.observe)]
    try:
        yield result, observers
        arguments.when_stopped = "at once; the run is finished and saved"
    except Interrupted as stop:
        if not result.resume_command:
            raise
        command = f"{stop}; go on with: {result.resume_command}"
        raise Interrupted(command, stop.signal) from None
    except (CheckpointError, RunError) as error:  # a disk that is full
        if not result.resume_command:
            raise
        raise type(error)(f"{error}: {result.resume_command}") from error
    except ConfigError as error:  # a reward that failed: nothing else asks the user while it trains
        if not result.resume_command:
            raise
        raise ConfigError(
            f"{error}. Nothing is lost; once that is mended, go on with: {result.resume_command}"
        ) from error


def watchers_for(arguments: argparse.Namespace) -> list[Watcher]:
    """Who looks into the run: its vital signs are watched, unless that is not wanted, and what is
    to be filmed is; a run that is resumed goes on with its films.
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
    from pellucid.observers import observer_for

    return [observer_for(name) for name in dict.fromkeys(names)]
