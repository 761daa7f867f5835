"""How long a page waits: from a request to its answer, in one process.

    python -m benchmarks.page --run runs/my-run
    python -m benchmarks.page --run path/to/gpt2 --rounds 3 --html

Each round opens the sentence anew. It asks for the first view (layers, next token, first chapter),
and for the backward pass if the model is small enough for a page to run it at once. Then it asks
for every chapter in the order of the story, at one layer and head. Loading the weights is timed
apart. `--html` times the one-file page too, in its default form.

Comes in: flags. Goes out: a table on standard output, and a dated
JSON file under benchmarks/results/.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import header, write
from pellucid.display.numbers import size
from pellucid.explain.chapter_types import Place
from pellucid.explain.chapters import CHAPTERS
from pellucid.runs import Run, load
from pellucid.web import Reading, Session, one_page, open_session
from pellucid.web.requests import PageRequest

FOLDER = Path(__file__).parent
SENTENCE = "My name is Varun & I am from Mumbai"
#: Milliseconds that opening a chapter of the default model may take.
GOAL = 100


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True, help="a run or a published model")
    parser.add_argument("--sentence", default=SENTENCE)
    parser.add_argument("--layer", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--html", action="store_true", help="time the one-file page too")
    parser.add_argument("--out", type=Path, default=FOLDER / "results")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    results = header("benchmarks.page", parser, arguments)
    loaded, run = timed(partial(load, arguments.run))
    rounds = [visit(run, arguments.sentence, arguments.layer) for _ in range(arguments.rounds + 1)]
    results |= {
        "load_ms": loaded[0],
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "milliseconds": {view: [round[view] for round in rounds[1:]] for view in rounds[0]},
    }
    if arguments.html:
        session, reading = opened(run, arguments.sentence)
        took, page = timed(lambda: one_page(session, reading))
        results["html"] = {
            "ms": took[0],
            "cpu_ms": took[1],
            "views": page.answers,
            "bytes": page.n_bytes,
        }
    write(results, arguments.out, "page")
    print(table(results))


def timed(call: Callable[[], Any]) -> tuple[tuple[float, float], Any]:
    """The milliseconds of a call by the clock and of all processors, and its result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return ((time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3), result


def opened(run: Run, sentence: str) -> tuple[Session, Reading]:
    session = open_session([run])
    return session, Reading(session.shelf.keys[0], "", sentence)


def visit(run: Run, sentence: str, layer: int) -> dict[str, tuple[float, float]]:
    """One round: the milliseconds of the first view and of each chapter."""
    session, reading = opened(run, sentence)

    def ask(kind: str, **fields: Any) -> bytes:
        return session.answer(PageRequest(kind=kind, reading=reading, **fields))

    def first_view() -> None:
        for kind in ("overview", "prediction"):
            ask(kind)
        ask("chapter", chapter=CHAPTERS[0].id)

    milliseconds = {"first view": timed(first_view)[0]}
    is_large = session.get(PageRequest(kind="overview", reading=reading))["backward"]["large"]
    if not is_large:
        milliseconds["backward pass"] = timed(partial(ask, "backward"))[0]
    for entry in CHAPTERS:
        if entry.build_comparison is None and not (is_large and entry.walks):
            open_it = partial(ask, "chapter", chapter=entry.id, place=Place(layer=layer))
            milliseconds[entry.id] = timed(open_it)[0]
    return milliseconds


def table(results: dict[str, Any]) -> str:
    """Median and range of each view, and the median time of processors, the slowest last."""
    columns = {
        view: tuple(zip(*times, strict=True)) for view, times in results["milliseconds"].items()
    }
    rows = sorted(columns.items(), key=lambda row: statistics.median(row[1][0]))
    lines = [
        f"{results['parameters']:,} parameters, loaded in {results['load_ms']:,.0f} ms",
        "",
        f"{'view':<16}{'median ms':>10}{'least':>8}{'most':>8}{'processors':>12}",
    ]
    lines += [
        f"{view:<16}{statistics.median(wall):>10.1f}{min(wall):>8.1f}{max(wall):>8.1f}"
        f"{statistics.median(cpu):>12.1f}" + ("  *" if statistics.median(wall) > GOAL else "")
        for view, (wall, cpu) in rows
    ]
    if "html" in results:
        page = results["html"]
        page_size = size(page["bytes"])
        lines += ["", f"one file: {page['ms'] / 1e3:.1f} s, {page['views']} views, {page_size}"]
    return "\n".join([*lines, "", f"* more than {GOAL} ms"])


if __name__ == "__main__":
    main()
