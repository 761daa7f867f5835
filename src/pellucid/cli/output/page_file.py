"""Write the page as one file."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pellucid.cli.flags.against import compare_is_meant
from pellucid.cli.flags.place import place_of
from pellucid.cli.output.printing import print_json

#: Between two lines of progress.
_SECONDS = 2.0


def write_html(arguments: argparse.Namespace, runs: list[str]) -> None:
    """Write the page as one file, after a line with its size."""
    from pellucid.display.numbers import size
    from pellucid.web import Reading, check_name, one_page, open_session, write_page

    file = check_name(Path(arguments.html))
    place = place_of(arguments)
    session = open_session(runs, sentence=arguments.sentence)
    reading, versus = Reading(session.shelf.keys[0], "", arguments.sentence), None
    if compare_is_meant(arguments):
        text = arguments.against_text
        versus = Reading(session.shelf.keys[-1], "", arguments.sentence if text is None else text)
    page = one_page(
        session, reading, place=place, versus=versus, full=arguments.full, watch=_progress(file)
    )
    if arguments.json:
        print_json({"file": str(file), "bytes": page.n_bytes, "answers": page.answers})
    else:
        print(f"{file}: {size(page.n_bytes)}, {page.answers:,} views", flush=True)
    write_page(page, file)


def _progress(file: Path) -> Callable[[int, int], None]:
    """Prints how many views a file has, a line on stderr every few seconds."""
    last_time = time.monotonic()

    def watch(n_done: int, total: int) -> None:
        nonlocal last_time
        if time.monotonic() - last_time >= _SECONDS:
            last_time = time.monotonic()
            print(f"{file}: {n_done:,} of {total:,} views", file=sys.stderr, flush=True)

    return watch
