"""`pellucid explain --why`: an answer on the terminal, or as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from pellucid.cli.flags.place import place_of
from pellucid.cli.output.printing import print_result

if TYPE_CHECKING:
    from pellucid.explain import Attribution, Trace
    from pellucid.explain.why.over_training import Course


def print_why(trace: Trace, arguments: argparse.Namespace) -> None:
    """Take the difference apart, measure it, and print it.

    Raises:
        PellucidError: the model says no word, or a word is no single token.
    """
    from pellucid.cli.output.chapter import lines_of
    from pellucid.explain.chapters import finish_chapter
    from pellucid.explain.chapters.why import describe
    from pellucid.explain.selection import select_place
    from pellucid.explain.why.measure import measure
    from pellucid.explain.why.plain import plain_why

    selection = select_place(trace, place_of(arguments))
    attribution = trace.why(arguments.why or None, arguments.rather_than, selection.token)
    if arguments.over_training:
        _print_course(trace, attribution, arguments)
        return
    measurement = measure(trace, attribution, arguments.contrast)
    if arguments.json:
        print_result(arguments, plain_why(trace, attribution, measurement), ())
        return
    chapter = finish_chapter("why", describe(trace, attribution, measurement))
    print_result(arguments, {}, lines_of(chapter, trace, selection))


def _print_course(trace: Trace, attribution: Attribution, arguments: argparse.Namespace) -> None:
    """The same question at each checkpoint."""
    from pellucid.explain.why.over_training import follow

    assert trace.run is not None
    course = follow(trace.run, trace, attribution)
    print_result(arguments, asdict(course), _course_lines(course))


def _course_lines(course: Course) -> Iterator[str]:
    """A row for each checkpoint: both probabilities, the difference, and the largest parts."""
    word, other = map(repr, course.names)
    yield f"{word} rather than {other}, at each checkpoint of the run"
    yield ""
    yield f"{'step':>8} {'p':>9} {'p other':>9} {'difference':>11}"
    rows = zip(course.steps, course.probabilities, course.differences, strict=True)
    for step, (p_word, p_other), difference in rows:
        yield f"{step:>8} {p_word:>9.3g} {p_other:>9.3g} {difference:>+11.4f}"
    yield ""
    yield "the largest parts at any of them:"
    width = max(map(len, course.shares))
    for name, shares in course.shares.items():
        shown_shares = shares if len(shares) <= 6 else (*shares[:3], *shares[-3:])
        gap = "" if len(shares) <= 6 else "  (first and last three; --json has all)"
        yield f"  {name:<{width}} " + " ".join(f"{share:>+8.3f}" for share in shown_shares) + gap
    yield from (f"note: {problem}" for problem in course.problems)
