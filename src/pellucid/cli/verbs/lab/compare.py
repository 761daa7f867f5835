"""`pellucid compare`: which variant is better, and how sure that is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from pellucid.cli.flags.numbers import MINUTES, SEED, STEPS, TRAININGS, integer, number
from pellucid.cli.flags.shared import add_settings, finish_parser
from pellucid.cli.output.printing import print_result

#: What a signal leaves behind.
STOPPED = "at once; runs are saved, and the same command continues"
#: The processes of a command.
WORKERS = integer(1, 256, "each is a process with a training of its own")
_FLOPS = number(1, 1e30, "no machine has so many")


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "compare",
        help="train variants with several seeds and compare them",
        description="Train each variant with the same seeds on the same data and budget; then give "
        "every pair its difference, with an interval and a verdict. Runs that are finished are not "
        "trained again: the same command continues, and more seeds can be added.",
    )
    parser.add_argument(
        "words",
        nargs="+",
        metavar="CONFIG|PATH",
        help="the variants, as TOML files or names of presets, and then the data: files, folders "
        "or patterns (default: the documentation in Python's standard library)",
    )
    parser.add_argument(
        "--seeds",
        type=read_seeds,
        default=5,
        metavar="N",
        help="so many seeds for each variant, or the seeds themselves: 3,7,11 (5)",
    )
    parser.add_argument("--out", metavar="DIR", help="the folder of all runs (default: runs/...)")
    add_budget(parser)
    parser.add_argument("--workers", type=WORKERS, default=1, metavar="N", help="processes (1)")
    parser.add_argument(
        "--measure",
        metavar="NAME",
        help="compare this (default: bits per byte, reward or loss)",
    )
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="RESULT",
        help="show the result.json of another comparison on the same corpus too",
    )
    _add_tuning(parser)
    add_common(parser)
    finish_parser(parser, call, force=True, when_stopped=STOPPED)


def add_budget(parser: Any) -> None:
    """Add the budget of every run."""
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=STEPS, metavar="N", help="N updates for every run")
    length.add_argument("--tokens", type=integer(), metavar="N", help="N tokens for every run")
    length.add_argument("--minutes", type=MINUTES, metavar="N", help="N minutes for every run")
    length.add_argument("--flops", type=_FLOPS, metavar="N", help="N FLOPs for every run")


def add_common(parser: Any) -> None:
    """Add the choices for all runs."""
    parser.add_argument("--objective", metavar="NAME", help="the objective of all variants")
    parser.add_argument(
        "--from", dest="start", metavar="RUN", help="start all from the weights of a run or model"
    )
    parser.add_argument(
        "--reward",
        metavar="M:F",
        help="for policy-gradient: MODULE:FUNCTION, or RUN:CLASS of a classifier",
    )
    parser.add_argument("--preset", metavar="NAME", help="for settings that no variant gives")
    parser.add_argument("--field", metavar="F", help="the field of a table that holds the text")
    parser.add_argument("--columns", action="append", default=[], metavar="NAME=COLUMN")
    parser.add_argument("--device", metavar="D", help="auto, cpu, cuda, cuda:1")
    add_settings(parser, example="training.batch_size=16, for all variants")


def common_choices(arguments: argparse.Namespace) -> dict[str, Any]:
    """The budget and the choices for all runs, by the names that Python has for them."""
    return {
        "steps": arguments.steps,
        "tokens": arguments.tokens,
        "minutes": arguments.minutes,
        "flops": arguments.flops,
        "objective": arguments.objective,
        "start": arguments.start,
        "reward": arguments.reward,
        "preset": arguments.preset,
        "field": arguments.field,
        "columns": [name for columns in arguments.columns for name in columns.split(",")],
        "device": arguments.device,
        "settings": arguments.set,
    }


def notifier(arguments: argparse.Namespace) -> Callable[[str], None]:
    """Prints the lines of progress; with `--json` only if a person may read standard error."""
    stream = sys.stderr if arguments.json else sys.stdout

    def notify(line: str) -> None:
        if not arguments.json or stream.isatty():
            print(line, file=stream, flush=True)

    return notify


def _add_tuning(parser: Any) -> None:
    group = parser.add_argument_group("tuning")
    group.add_argument(
        "--tune",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY",
        help="first tune these keys, with the same number of trials for every variant: "
        "learning_rate, or weight_decay=0.01..0.3",
    )
    group.add_argument(
        "--trials", type=TRAININGS, default=10, metavar="N", help="trials for each variant (10)"
    )
    group.add_argument(
        "--storage",
        metavar="URL|FILE",
        help="share trials between machines: the URL of a database, or a journal file in a shared "
        "folder",
    )


def call(arguments: argparse.Namespace) -> None:
    """Train the missing runs; print the comparison, and write its files."""
    from pathlib import Path

    from pellucid.cli.output.comparison import against_lines, comparison_lines
    from pellucid.lab import compare
    from pellucid.lab.files import comparison_facts, write_tables
    from pellucid.lab.page import write_page
    from pellucid.lab.results import read_result, write_result

    others = [read_result(Path(path)) for path in arguments.against]
    comparison = compare(
        arguments.words,
        seeds=arguments.seeds,
        out=arguments.out,
        workers=arguments.workers,
        tune=arguments.tune,
        trials=arguments.trials,
        storage=arguments.storage,
        measure=arguments.measure,
        against=others,
        notify=notifier(arguments),
        force=arguments.force,
        **common_choices(arguments),
    )
    files = [write_page(comparison), *write_tables(comparison), write_result(comparison)]
    facts = comparison_facts(comparison) | {
        "files": [str(file) for file in files],
        "against": [other.facts for other in others],
    }
    lines = [*comparison_lines(comparison, files), *against_lines(comparison, others)]
    print_result(arguments, facts, lines)


def read_seeds(word: str) -> int | list[int]:
    """A number of seeds, or the seeds themselves."""
    if "," not in word:
        return integer(1, 1000, "each is a training of every variant")(word)
    return [SEED(seed) for seed in word.split(",") if seed]
