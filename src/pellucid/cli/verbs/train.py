"""`pellucid train`: from text to a model, or on from where a run stopped."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import RANK
from pellucid.cli.flags.run import add_run_flags, observed, resume_training, start_training
from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.proof import add_prove_flags
from pellucid.cli.output.train_summary import print_summary
from pellucid.cli.verbs.prove_on_alarm import train_with_alarm
from pellucid.errors import ConfigError
from pellucid.parallel import count_ranks, leads

if TYPE_CHECKING:
    from pellucid.runs import Run
    from pellucid.training import Interrupts, Observer

#: Flags that only a new run takes.
_NEW_RUN_FLAGS = (
    "objective",
    "lora",
    "preset",
    "config",
    "out",
    "tokens",
    "minutes",
    "epochs",
    "seed",
    "device",
    "field",
    "parts",
)


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "train",
        help="train a model on text",
        description="Train a model on text files, tables (.jsonl, .json, .csv, .tsv, .parquet; .gz "
        "or .zst) or folders of them (or - for standard input). Without any, on the documentation "
        "in Python's standard library. Choose the objective with --objective. Continue from "
        "trained weights with --from.",
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help='files, folders, patterns as "data/**/*.md", or -'
    )
    parser.add_argument(
        "--objective",
        metavar="NAME",
        help="the objective: next-token, mlm, span-corruption, seq2seq, classify, sft, dpo, "
        "policy-gradient",
    )
    parser.add_argument(
        "--from", dest="start", metavar="RUN", help="start from the weights of a run or model"
    )
    parser.add_argument("--lora", type=RANK, metavar="RANK", help="train adapters of this rank")
    parser.add_argument(
        "--reward",
        metavar="M:F",
        help="for policy-gradient: MODULE:FUNCTION, or RUN:CLASS of a classifier",
    )
    parser.add_argument(
        "--parts",
        metavar="M:F",
        help="MODULE:FUNCTION that replaces modules of the model by your own; see docs/learn.md",
    )
    parser.add_argument(
        "--columns",
        action="append",
        default=[],
        metavar="NAME=COLUMN",
        help="the columns of a row, such as source=english; separate by commas, or repeat",
    )
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help="preset for all settings you do not give (default: nano)",
    )
    parser.add_argument("--resume", metavar="RUN", help="continue a run from its latest checkpoint")
    parser.add_argument(
        "--resume-or-start",
        action="store_true",
        help="continue the run in --out if there is one, else start it: one command for a batch "
        "system that repeats it",
    )
    parser.add_argument(
        "--allow-drift",
        action="store_true",
        help="resume even if config, plan, machine or reward have changed; pellucid records the "
        "change",
    )
    parser.add_argument(
        "--prove-on-alarm",
        action="store_true",
        help="when a vital sign stays sick: stop, name the cause, try fixes on forks, and offer "
        "the one that helps",
    )
    add_run_flags(parser)
    add_prove_flags(parser)
    parser.set_defaults(takes_ranks=True)
    finish_parser(parser, call, when_stopped="before the first step: there is nothing to save")


def call(arguments: argparse.Namespace) -> None:
    """Train or resume; then print the results and the next commands."""
    if arguments.resume_or_start:
        _resume_if_there(arguments)
    elif arguments.resume is not None:
        _branch_or_refuse(arguments)
    start = _resume if arguments.resume is not None else _start
    if arguments.prove_on_alarm:
        if arguments.no_vitals:
            raise ConfigError("--prove-on-alarm: vital signs give the alarm; leave --no-vitals out")
        if count_ranks() > 1:
            raise ConfigError(
                "--prove-on-alarm tries fixes in one process: start it without torchrun"
            )
        train_with_alarm(arguments, start)
        return
    with observed(arguments) as (result, observers):
        run = start(arguments, observers)
    if leads():
        print_summary(arguments, run, result)


def _start(
    arguments: argparse.Namespace,
    observers: Sequence[Observer],
    interrupts: Interrupts | None = None,
) -> Run:
    return start_training(
        arguments,
        arguments.paths,
        observers,
        objective=arguments.objective,
        start=arguments.start,
        reward=arguments.reward,
        parts=arguments.parts,
        lora=arguments.lora,
        columns=arguments.columns,
        interrupts=interrupts,
    )


def _resume(
    arguments: argparse.Namespace,
    observers: Sequence[Observer],
    interrupts: Interrupts | None = None,
) -> Run:
    return resume_training(arguments, arguments.resume, observers, interrupts)


def _resume_if_there(arguments: argparse.Namespace) -> None:
    """Resume the run in `--out`, if it is one: it has all settings that a start would take."""
    if arguments.out is None or arguments.resume is not None:
        raise ConfigError(
            "--resume-or-start looks for the run in --out: name its folder there, and leave "
            "--resume out"
        )
    if (Path(arguments.out) / "config.toml").is_file():
        arguments.resume = arguments.out


def _branch_or_refuse(arguments: argparse.Namespace) -> None:
    """With --config and --out, continue in a new folder under that config; the run stays."""
    config_and_out = arguments.config, arguments.out
    if None in config_and_out:
        _refuse_with_resume(arguments)
        return
    from pellucid import runs
    from pellucid.runs.resolve_config import resolve_config

    arguments.config = arguments.out = None
    _refuse_with_resume(arguments)
    run = resolve_config(config_file=config_and_out[0])
    if leads():
        runs.branch(arguments.resume, run, config_and_out[1])
    arguments.resume = str(config_and_out[1])


def _refuse_with_resume(arguments: argparse.Namespace) -> None:
    flags = [f"--{name}" for name in _NEW_RUN_FLAGS if getattr(arguments, name) is not None]
    flags += ["--from"] if arguments.start is not None else []
    flags += [f"--{name}" for name in ("set", "columns") if getattr(arguments, name)]
    flags += ["PATH"] if arguments.paths else []
    if flags:
        raise ConfigError(
            f"--resume takes all settings from the run, so {', '.join(flags)} cannot change "
            "them: leave it out, or start a new run; to continue under another config in a new "
            "folder, give both --config and --out"
        )
