"""`pellucid explain --why`: an answer on the terminal, or as JSON."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pellucid.cli.output.printing import print_result
from pellucid.cli.verbs.serve import place_of

if TYPE_CHECKING:
    from pellucid.explain import Trace


def print_why(trace: Trace, arguments: argparse.Namespace) -> None:
    """Take the difference apart, measure it, and print it.

    Raises:
        PellucidError: the model says no word, or a word is no single token.
    """
    from pellucid.cli.output.chapter import lines_of
    from pellucid.explain.chapters import finish_chapter
    from pellucid.explain.chapters.why import describe
    from pellucid.explain.selection import select_place
    from pellucid.explain.why.plain import plain_why

    selection = select_place(trace, place_of(arguments))
    why = trace.why(arguments.why or None, arguments.rather_than, selection.token)
    measurement = why.measure(arguments.contrast)
    if arguments.json:
        print_result(arguments, plain_why(why, measurement, paths=True), ())
        return
    chapter = finish_chapter("why", describe(why, measurement))
    print_result(arguments, {}, lines_of(chapter, trace, selection))
