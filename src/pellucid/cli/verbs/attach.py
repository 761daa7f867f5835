"""`pellucid attach`: watch runs from another terminal."""

from __future__ import annotations

import argparse
import queue
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pellucid.cli.flags.shared import finish_parser
from pellucid.json_text import json_text

if TYPE_CHECKING:
    from pellucid.runs import RunFolder
    from pellucid.training import Event

#: Seconds between two looks at the keys.
_PATIENCE = 0.1


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "attach",
        help="show runs that train elsewhere",
        description="Show runs from their start and while they train. This does not affect them. "
        "Of several runs you see a line each, and the panel of one; n shows the next.",
    )
    parser.add_argument("run", metavar="RUN", nargs="+", help="a run's folder; several at once")
    finish_parser(parser, call)


def call(arguments: argparse.Namespace) -> None:
    """Feed the events of runs to a display; as JSON, one event a line."""
    from pellucid import runs
    from pellucid.training import to_record

    folders = [runs.existing_folder(Path(path))[0] for path in arguments.run]
    if not arguments.json:
        _show(folders)
        return
    for number, event in _follow(folders, _wait):
        name = {"run": str(folders[number].path)} if len(folders) > 1 else {}
        print(json_text(name | to_record(event)), flush=True)


def _show(folders: Sequence[RunFolder]) -> None:
    from rich.console import Console

    from pellucid.display import Panel, PlainLines, can_redraw, display_for
    from pellucid.display.several import SeveralPanel

    names = [folder.path.name for folder in folders]
    console = Console()
    if len(folders) == 1:
        displays: list[Panel | PlainLines] = [display_for()]
    elif can_redraw(console, sys.stdout):
        displays = [SeveralPanel(console, names)]
    else:
        displays = [PlainLines(sys.stdout, prefix=f"{name}: ") for name in names]
    for display in displays:
        if isinstance(display, PlainLines):
            display.when_unread = _end
    first = displays[0]
    try:
        for number, event in _follow(folders, first.tick if isinstance(first, Panel) else _wait):
            if isinstance(first, SeveralPanel):
                first.take(number, event)
            else:
                displays[number](event)
    except KeyboardInterrupt:  # this ends the display, not the runs
        pass
    finally:
        for display in displays:
            display.close()


def _end() -> NoReturn:
    """The reader of the lines has ended: nothing is left to show."""
    raise BrokenPipeError


def _wait() -> None:
    """Plain lines have nothing to do between events."""


def _follow(folders: Sequence[RunFolder], idle: Callable[[], None]) -> Generator[tuple[int, Event]]:
    """The events of all runs as they come, each with the number of its run; `idle` in between."""
    from pellucid import runs

    arrived: queue.Queue[tuple[int, Event | BaseException | None]] = queue.Queue()

    def read(number: int, folder: RunFolder) -> None:
        try:
            for event in runs.attach(folder):
                arrived.put((number, event))
            arrived.put((number, None))
        except BaseException as error:  # it is raised where the others are read
            arrived.put((number, error))

    for number, folder in enumerate(folders):
        threading.Thread(target=read, args=(number, folder), daemon=True).start()
    n_open = len(folders)
    while n_open:
        try:
            number, event = arrived.get(timeout=_PATIENCE)
        except queue.Empty:
            idle()
            continue
        if isinstance(event, BaseException):
            raise event
        if event is None:
            n_open -= 1
        else:
            yield number, event
