"""`pellucid attach`: watch a run from another terminal."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pellucid.cli.flags.shared import finish_parser
from pellucid.json_text import json_text


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "attach",
        help="show a run that trains elsewhere",
        description="Show a run from its start and while it trains. This does not affect the run.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder")
    finish_parser(parser, call)


def call(arguments: argparse.Namespace) -> None:
    """Feed the run's events to a display; as JSON, one event a line."""
    from pellucid import runs
    from pellucid.display import display_for
    from pellucid.training import to_record

    folder, _ = runs.existing_folder(Path(arguments.run))
    if arguments.json:
        for event in runs.attach(folder):
            print(json_text(to_record(event)), flush=True)
        return
    display = display_for()
    try:
        for event in runs.attach(folder):
            display(event)
    except KeyboardInterrupt:  # this ends the display, not the run
        pass
    finally:
        display.close()
