"""`pellucid learn`: lessons with exercises from your own model, and a track to build one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import can_ask, print_json, print_lines, print_result
from pellucid.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from pellucid.course.lessons.open_lesson import OpenLesson
    from pellucid.course.lessons.progress import Progress

_READERS = ("new", "pytorch", "interview")


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "learn",
        help="a course: lessons with exercises from your own model",
        description="Without a name: where you are, and the next lesson. With a lesson's name: its "
        "idea, a picture, a command to try, and exercises computed from your model and your "
        "sentence. `list` lists the lessons. `build DIR` writes files with gaps, which become a "
        "model of your own, and `check DIR` tests them.",
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="a lesson, list, build or check")
    parser.add_argument("folder", metavar="DIR", nargs="?", help="the folder of build and check")
    parser.add_argument("--run", metavar="RUN", help="your model (default: the course's own)")
    parser.add_argument("--sentence", metavar="TEXT", help="your sentence")
    parser.add_argument("--reader", choices=_READERS, help="which words and exercises you see")
    parser.add_argument(
        "--answers",
        metavar="FILE",
        help="a JSON file of answers by the exercise's id: numbers, lists, a choice, or code",
    )
    parser.add_argument(
        "--keep",
        metavar="DIR",
        default="runs/learn",
        help="the folder of the course's model and of your progress (default: runs/learn)",
    )
    finish_parser(parser, call)


def call(arguments: argparse.Namespace) -> ExitCode | None:
    """Show where the reader is, a list, or a lesson; or write and check the track."""
    name, folder = arguments.name, arguments.folder
    if name not in ("build", "check") and folder is not None:
        raise ConfigError(f"learn {name} takes no folder: leave {folder!r} out")
    if name not in ("list", "build", "check", None):
        return _lesson(arguments)
    for flag in ("run", "sentence", "answers"):
        if getattr(arguments, flag) is not None:
            raise ConfigError(f"--{flag} is for a lesson: give its name, or leave --{flag} out")
    if name in ("build", "check"):
        if folder is None:
            raise ConfigError(f"learn {name} needs a folder: pellucid learn {name} DIR")
        return (
            _build(arguments, Path(folder)) if name == "build" else _check(arguments, Path(folder))
        )
    return _overview(arguments)


def _overview(arguments: argparse.Namespace) -> None:
    from pellucid.cli.output.lesson import list_lines, where_lines
    from pellucid.course.lessons.facts import list_facts

    progress = _progress(arguments)
    lines = list_lines(progress) if arguments.name == "list" else where_lines(progress)
    print_result(arguments, list_facts(progress), lines)


def _progress(arguments: argparse.Namespace) -> Progress:
    """The progress, with the reader that was asked for."""
    from pellucid.course.lessons.progress import note, read_progress

    keep = Path(arguments.keep)
    if arguments.reader is None:
        return read_progress(keep)
    return note(keep, reader=arguments.reader)


def _lesson(arguments: argparse.Namespace) -> None:
    from pellucid.cli.output.lesson import (
        all_exercise_lines,
        lesson_lines,
        verdict_lines,
    )
    from pellucid.course.exercises.grading import grade_all
    from pellucid.course.lessons.facts import lesson_facts, verdict_facts
    from pellucid.course.lessons.lesson import find_lesson
    from pellucid.course.lessons.open_lesson import find_run, open_lesson
    from pellucid.course.lessons.progress import note
    from pellucid.reader import read_json_table

    lesson = find_lesson(arguments.name)
    answers = None
    if arguments.answers is not None:
        answers = read_json_table(arguments.answers, lenient=True)
    progress = _progress(arguments)
    keep = Path(arguments.keep)
    name, run = find_run(arguments.run, keep, lambda text: print(text, file=sys.stderr))
    # a program, and a file of answers, may name every exercise
    shows_all = (arguments.json or answers is not None) and arguments.reader is None
    reader = None if shows_all else progress.reader
    opened = open_lesson(lesson, run, name, sentence=arguments.sentence, reader=reader)
    if answers is None:
        if arguments.json:
            print_json(lesson_facts(opened, progress))
            return
        print_lines(lesson_lines(opened, progress))
        if can_ask():
            _ask(opened, keep, progress)
        else:
            print_lines(all_exercise_lines(opened, progress))
        return
    verdicts = grade_all(opened.exercises, answers)
    progress = note(
        keep, lesson=lesson.name, solved=[id for id, v in verdicts.items() if v.accepted]
    )
    by_id = verdict_facts(verdicts)
    facts = lesson_facts(opened, progress, by_id) | {"answers": by_id}
    print_result(arguments, facts, verdict_lines(verdicts))


def _ask(opened: OpenLesson, keep: Path, progress: Progress) -> None:
    """Ask each exercise on a terminal; q, Ctrl-C and Ctrl-D end it."""
    from pellucid.cli.output.lesson import exercise_lines, read_answer, verdict_lines
    from pellucid.course.exercises.grading import grade
    from pellucid.course.lessons.progress import note
    from pellucid.errors import PellucidError

    solved = progress.solved.get(opened.lesson.name, ())
    for exercise in opened.exercises:
        print_lines(exercise_lines(exercise, solved=exercise.id in solved))
        while True:
            try:
                words = input("\n  your answer   Enter: skip   q: stop > ").strip()
            except (EOFError, KeyboardInterrupt):
                print()
                return
            if words in ("", "q"):
                break
            try:
                verdict = grade(exercise, read_answer(exercise, words))
            except PellucidError as error:
                print(f"  {error}")
                continue
            print_lines(verdict_lines({exercise.id: verdict}))
            if verdict.accepted:
                note(keep, lesson=opened.lesson.name, solved=[exercise.id])
                break
        if words == "q":
            return


def _build(arguments: argparse.Namespace, folder: Path) -> None:
    from pellucid.course.build.track import STEPS, write_track

    write_track(folder)
    facts = {"folder": str(folder), "files": [step.file for step in STEPS]}
    lines = [
        f"wrote {len(STEPS)} files with gaps to {folder}: fill them in this order",
        "",
        *(f"  {step.file:<18} {step.task}" for step in STEPS),
        "",
        f"test what you have with: pellucid learn check {folder}",
    ]
    print_result(arguments, facts, lines)


def _check(arguments: argparse.Namespace, folder: Path) -> ExitCode:
    from pellucid.course.build.check import check_track

    results = check_track(folder)
    facts = [
        {"file": result.file, "passed": result.passed, "message": result.message}
        for result in results
    ]
    n_passed = sum(result.passed for result in results)
    lines = [
        f"  {'✓' if result.passed else '≠'} {result.file:<18} {result.message}"
        for result in results
    ]
    lines += ["", f"{n_passed} of {len(results)} files pass"]
    print_result(arguments, facts, lines)
    return ExitCode.SUCCESS if n_passed == len(results) else ExitCode.FINDINGS
