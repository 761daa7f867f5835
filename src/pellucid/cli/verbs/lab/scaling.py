"""`pellucid scaling`: how the loss falls with size and tokens, and which size is best here."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import MINUTES, integer
from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import print_result
from pellucid.cli.verbs.lab.compare import (
    STOPPED,
    WORKERS,
    add_budget,
    add_common,
    common_choices,
    notifier,
    read_seeds,
)

if TYPE_CHECKING:
    from pellucid.lab import Scaling

_WEIGHTS = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)([kKMG]?)")
_UNITS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "scaling",
        help="fit how the loss falls with size and tokens, and predict the best size",
        description="Train a config in several sizes, each for the whole budget, a half and a "
        "quarter of it. Fit L = E + A/N^a + B/D^b to their losses. Predict the next size, and "
        "check it by real runs. Predict the best size for a time on this machine. The same "
        "command continues.",
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="CONFIG|PATH",
        help="a config, as a TOML file or the name of a preset (default: nano), and the data",
    )
    parser.add_argument(
        "--sizes",
        type=_sizes,
        default=4,
        metavar="N",
        help="so many sizes, each of twice the weights, up to the config's own; or the weights of "
        "each: 100k,200k,0.4M (4)",
    )
    parser.add_argument(
        "--budget",
        type=_budgets,
        metavar="MINUTES",
        help="predict the best size for a training of so many minutes, or of several: 10,60 (both)",
    )
    parser.add_argument(
        "--seeds",
        type=read_seeds,
        default=1,
        metavar="N",
        help="so many runs of each size and length, or the seeds themselves: 3,7,11 (1)",
    )
    parser.add_argument("--out", metavar="DIR", help="the folder of all runs (default: runs/...)")
    add_budget(parser)
    parser.add_argument("--workers", type=WORKERS, default=1, metavar="N", help="processes (1)")
    add_common(parser)
    finish_parser(parser, call, force=True, when_stopped=STOPPED)


def call(arguments: argparse.Namespace) -> None:
    """Train the missing runs; print the law and its predictions, and write its files."""
    from pellucid.lab import scaling
    from pellucid.lab.scaling import BUDGETS
    from pellucid.lab.scaling_files import scaling_facts, write_scaling_table
    from pellucid.lab.scaling_page import write_scaling_page

    result = scaling(
        *arguments.words,
        sizes=arguments.sizes,
        seeds=arguments.seeds,
        budget=arguments.budget or BUDGETS,
        out=arguments.out,
        workers=arguments.workers,
        notify=notifier(arguments),
        force=arguments.force,
        **common_choices(arguments),
    )
    files = [write_scaling_page(result), write_scaling_table(result)]
    facts = scaling_facts(result) | {"files": [str(file) for file in files]}
    print_result(arguments, facts, _lines(result, files))


def _lines(scaling: Scaling, files: Sequence[Path]) -> Iterator[str]:
    from pellucid.cli.output.comparison import filled, table_lines
    from pellucid.lab import scaling_tables as tables

    yield ""
    yield f"{scaling.measure.title} by weights N and tokens D. {scaling.measure.reads}".rstrip()
    yield ""
    yield from table_lines(tables.RUN_HEAD, list(tables.run_rows(scaling)))
    if scaling.law is not None:
        yield ""
        yield "L = E + A / N^a + B / D^b"
        yield from table_lines(tables.CONSTANT_HEAD, list(tables.constant_rows(scaling)))
    if scaling.checks:
        yield ""
        yield from table_lines(tables.CHECK_HEAD, list(tables.check_rows(scaling)))
        yield from filled(tables.check_sentence(scaling))
    if scaling.best:
        yield ""
        yield from table_lines(tables.BEST_HEAD, list(tables.best_rows(scaling)))
        for best in scaling.best:
            for limit in best.limits:
                yield from filled(f"in {best.minutes:g} min: {limit}")
    if scaling.notes:
        yield ""
    for note in scaling.notes:
        yield from filled(f"note: {note}")
    yield ""
    yield from (str(file) for file in files)


def _budgets(word: str) -> list[float]:
    """Minutes, one or several."""
    return [MINUTES(part) for part in word.split(",")]


def _sizes(word: str) -> int | list[int]:
    """A number of sizes, or the weights of each."""
    if word.isdecimal() and len(word) < 3:
        return integer(3, 16, "a law needs three sizes, and each is several trainings")(word)
    matches = [_WEIGHTS.fullmatch(part.strip()) for part in word.split(",") if part.strip()]
    sizes = [round(float(match[1]) * _UNITS[match[2]]) for match in matches if match]
    if len(sizes) < len(matches) or not 3 <= len(set(sizes)) <= 16 or max(sizes) > 10**12:
        raise argparse.ArgumentTypeError(
            f"expected a number of sizes from 3 to 16, or the weights of so many, such as "
            f"100k,200k,0.4M; was {word!r}"
        )
    return sizes
