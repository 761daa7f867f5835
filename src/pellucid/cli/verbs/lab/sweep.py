"""`pellucid sweep`: search a space of configs, and show which key matters."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import TRAININGS
from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import print_result
from pellucid.cli.verbs.lab.compare import (
    STOPPED,
    add_budget,
    add_common,
    common_choices,
    notifier,
)

if TYPE_CHECKING:
    from pellucid.lab import Sweep

#: Trials that the output lists.
_SHOWN_TRIALS = 10


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "sweep",
        help="search a space of configs",
        description="Train trials of a config with values from a space, which is a TOML file with "
        "ranges and lists; then list the best ones and the importance of each key. The same "
        "command continues, also in several processes at once.",
    )
    parser.add_argument("space", metavar="SPACE", help="the space, as a TOML file")
    parser.add_argument(
        "words",
        nargs="*",
        metavar="CONFIG|PATH",
        help="a config, as a TOML file or the name of a preset (default: nano), and the data",
    )
    parser.add_argument("--out", metavar="DIR", help="the folder of all runs (default: runs/...)")
    parser.add_argument(
        "--trials", type=TRAININGS, default=20, metavar="N", help="trials in all (20)"
    )
    parser.add_argument(
        "--storage", metavar="URL|FILE", help="share trials between machines: as for compare"
    )
    add_budget(parser)
    add_common(parser)
    finish_parser(parser, call, force=True, when_stopped=STOPPED)


def call(arguments: argparse.Namespace) -> None:
    """Run the trials that are missing; print the best ones and the importances."""
    from pellucid.lab import sweep

    result = sweep(
        arguments.space,
        *arguments.words,
        trials=arguments.trials,
        out=arguments.out,
        storage=arguments.storage,
        notify=notifier(arguments),
        force=arguments.force,
        **common_choices(arguments),
    )
    facts = {
        "trials": [{"loss": loss, "values": dict(values)} for loss, values in result.trials],
        "stopped": result.n_stopped,
        "importances": [
            {"key": row.key, "share": row.share, "interval": [row.low, row.high]}
            for row in result.importances
        ],
        "folder": str(result.out),
    }
    print_result(arguments, facts, _lines(result))


def _lines(result: Sweep) -> list[str]:
    from pellucid.cli.output.comparison import table_lines
    from pellucid.lab.tuning import format_value

    keys = list(result.trials[0][1])
    rows = [
        (f"{loss:.4f}", *(format_value(values[key]) for key in keys))
        for loss, values in result.trials[:_SHOWN_TRIALS]
    ]
    lines = ["", *table_lines(("loss", *keys), rows), ""]
    lines += [f"{result.n_stopped} trials were stopped early"] if result.n_stopped else []
    if result.importances:
        shares = [
            (row.key, f"{row.share:.0%}", f"{row.low:.0%} to {row.high:.0%}")
            for row in result.importances
        ]
        lines += table_lines(("importance", "share", "90% interval"), shares)
    else:
        lines.append("too few trials or keys for an importance")
    return [*lines, "", str(result.out)]
