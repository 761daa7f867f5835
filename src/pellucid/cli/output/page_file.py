"""Write the page as one file."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.cli.flags.against import compare_is_meant
from pellucid.cli.flags.example import is_example
from pellucid.cli.flags.place import place_of
from pellucid.cli.flags.token_ids import trace_request
from pellucid.cli.output.printing import print_json
from pellucid.errors import ConfigError

if TYPE_CHECKING:
    from pellucid.web import Reading, Session

#: Between two lines of progress.
_SECONDS = 2.0


def write_html(arguments: argparse.Namespace, runs: list[str]) -> None:
    """Write the page as one file, after a line with its size."""
    from pellucid.display.numbers import size
    from pellucid.web import check_name, one_page, write_page

    file = check_name(Path(arguments.html))
    place = place_of(arguments)
    session, reading, versus = open_readings(arguments, runs)
    page = one_page(
        session, reading, place=place, versus=versus, full=arguments.full, watch=_progress(file)
    )
    if arguments.json:
        print_json({"file": str(file), "bytes": page.n_bytes, "answers": page.answers})
    else:
        print(f"{file}: {size(page.n_bytes)}, {page.answers:,} views", flush=True)
    write_page(page, file)


def open_readings(
    arguments: argparse.Namespace, runs: list[str]
) -> tuple[Session, Reading, Reading | None]:
    """A session, the sentence or the example of a file, and what it is compared with.

    Raises:
        ConfigError: an example is to be compared.
    """
    from pellucid.runs import load
    from pellucid.web import Reading, open_session

    if is_example(arguments):
        if compare_is_meant(arguments):
            raise ConfigError("a file of an example compares nothing: leave --against out")
        run, target = load(runs[0]), arguments.target
        traced = trace_request(arguments, run, arguments.sentence, target=target)
        session = open_session([run], sentence=traced.sentence.text)
        reading = Reading(session.shelf.keys[0], "", traced.sentence.text)
        session.keep(reading, traced)
        return session, reading, None
    session = open_session(runs, sentence=arguments.sentence)
    reading = Reading(session.shelf.keys[0], "", arguments.sentence)
    if not compare_is_meant(arguments):
        return session, reading, None
    text = arguments.sentence if arguments.against_text is None else arguments.against_text
    return session, reading, Reading(session.shelf.keys[-1], "", text)


def _progress(file: Path) -> Callable[[int, int], None]:
    """Prints how many views a file has, a line on stderr every few seconds."""
    last_time = time.monotonic()

    def watch(n_done: int, total: int) -> None:
        nonlocal last_time
        if time.monotonic() - last_time >= _SECONDS:
            last_time = time.monotonic()
            print(f"{file}: {n_done:,} of {total:,} views", file=sys.stderr, flush=True)

    return watch
