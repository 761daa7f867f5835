"""Write the report of a run into its folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pellucid.disk import check_output, write_output
from pellucid.errors import PellucidError, RunError
from pellucid.json_text import json_text
from pellucid.reader import read_json, read_text
from pellucid.report.messages import message
from pellucid.report.page import Facts, page
from pellucid.report.story import build_story
from pellucid.runs import RunFolder, existing_folder, read_events


@dataclass(frozen=True, slots=True)
class Report:
    """A written report.

    Attributes:
        file: the HTML file.
        n_bytes: its size.
        step: updates of the run.
        events: events that it shows.
    """

    file: Path
    n_bytes: int
    step: int
    events: int


def write_report(run: str | Path, out: str | Path | None = None) -> Report:
    """Write the report of the run at `run` to `out`, or to `report.html` in its folder.

    The run may still be training: the report shows all events so far.

    Raises:
        RunError: There is no run, it has no events, or `out` is not the name of an HTML file.
    """
    folder, _ = existing_folder(Path(run))
    file = folder.path / "report.html" if out is None else Path(out)
    if file.suffix.lower() not in (".html", ".htm"):
        raise RunError(f"the report is HTML, and {file} does not end in .html: name it so")
    if not file.parent.is_dir():
        raise RunError(f"{file} cannot be written: there is no folder {file.parent}; make it first")
    check_output(file)
    happened = read_events(folder.metrics)
    if not happened:
        raise RunError(
            f"{folder.path} has recorded nothing yet: {folder.metrics} is missing or empty; try "
            "again once it trains"
        )
    story = build_story(happened, folder.path.name)
    text = page(story, config_text=read_text(folder.config), papers=list(_papers(folder)))
    return Report(file, write_output(file, text), story.step, len(happened))


def _papers(folder: RunFolder) -> Iterator[tuple[str, Facts]]:
    """The files about the machine and data of a run; an unreadable one shows its error."""
    yield message("plan"), _facts_in(folder.plan)
    yield message("text"), _facts_in(folder.text / "text.json")
    steps = folder.shelf.steps()
    if steps:
        file = folder.shelf.path(steps[-1]) / "checkpoint.json"
        yield message("checkpoint", step=steps[-1]), _facts_in(file)


def _facts_in(file: Path) -> Facts:
    try:
        content: object = read_json(file)
    except PellucidError as error:
        return [(file.name, str(error))]
    return list(_flat(content, ""))


def _flat(value: object, name: str) -> Iterator[tuple[str, str]]:
    """Nested tables as rows, such as train.n_tokens and its value."""
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            if key != "kind":  # the tag of a config class
                yield from _flat(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield name, f"{value:,}"
    else:
        yield name, value if isinstance(value, str) else json_text(value)
