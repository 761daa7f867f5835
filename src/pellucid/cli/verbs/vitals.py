"""`pellucid vitals`: the vital signs of a whole run, on the terminal and as one HTML file."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import print_result
from pellucid.disk import write_output
from pellucid.errors import RunError

if TYPE_CHECKING:
    pass


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "vitals",
        help="show the vital signs of a run",
        description="Softmax, cross-entropy, KL, gradients and variance through a whole run, with "
        "a word for each: calm, watch or sick. Also as one HTML file, vitals.html in the run.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder")
    parser.add_argument("--all", action="store_true", help="draw every sign, not one of each row")
    parser.add_argument("--why", action="store_true", help="only the rule behind each row's word")
    parser.add_argument("--out", metavar="FILE", help="the file (default: vitals.html in the run)")
    finish_parser(parser, call)


def call(arguments: argparse.Namespace) -> None:
    """Draw the vital signs, and write the file."""
    from pellucid import runs
    from pellucid.report import SignText, vitals_page
    from pellucid.training import Vitals
    from pellucid.vitals import chart, explain_rows, rules_of

    folder, _ = runs.existing_folder(Path(arguments.run))
    events = [event for event in runs.read_events(folder.metrics) if isinstance(event, Vitals)]
    if not events:
        raise RunError(
            f"{folder.path} has no vital signs: it was trained with --no-vitals, or has too few "
            "updates; `pellucid train --resume` watches the next ones"
        )
    rules = rules_of()
    columns = min(shutil.get_terminal_size().columns, 100)
    if arguments.why and not arguments.json:
        print("\n".join(explain_rows(events, rules, columns=columns)))
        return
    rule_texts = {
        id: SignText(rule.equation, rule.description, rule.source, tuple(rule.limits))
        for id, rule in rules.items()
    }
    file = folder.path / "vitals.html" if arguments.out is None else Path(arguments.out)
    if file.suffix.lower() not in (".html", ".htm"):
        raise RunError(f"the file is HTML, but {file} does not end in .html: rename it")
    write_output(file, vitals_page(folder.path.name, events, rule_texts))
    last = events[-1]
    names = ("id", "equation", "value", "word", "step", "where")
    facts: dict[str, Any] = {
        "step": last.step,
        "rows": dict(last.rows),
        "signs": [dict(zip(names, sign, strict=True)) for sign in last.signs],
        "file": str(file),
    }
    if arguments.why:
        facts["rules"] = {
            id: {"rule": rule.description, "source": rule.source} for id, rule in rules.items()
        }
    lines = chart(events, rules, columns=columns, every=arguments.all)
    print_result(arguments, facts, [*lines, f"\n{file}: the same as a page"])
