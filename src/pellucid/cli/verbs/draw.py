"""`pellucid draw`: the architecture of a preset, a run or a config, as text and as SVG."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.config_source import read_config_source
from pellucid.cli.flags.shared import add_settings, finish_parser
from pellucid.cli.output.printing import print_result
from pellucid.config import Run
from pellucid.disk import write_output
from pellucid.errors import ConfigError
from pellucid.presets import PRESETS

if TYPE_CHECKING:
    from pellucid.drawing import Drawing


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "draw",
        help="draw an architecture, with shapes and parameter counts",
        description="Draw the architecture of a preset, a run or a config as text, or as an SVG "
        "file: each part with its parameters, the shapes on the arrows, one block in full. This "
        "builds no model.",
    )
    parser.add_argument(
        "what",
        nargs="?",
        metavar="PRESET-OR-RUN",
        help="a preset's name, a TOML file, a run's folder, or a published model's (default: nano)",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="TOML file with settings that override the preset"
    )
    add_settings(parser, example="model.decoder.n_layers=6")
    parser.add_argument("--svg", metavar="FILE", help="write an SVG file instead of text")
    finish_parser(parser, call)


def call(arguments: argparse.Namespace) -> None:
    """Print the drawing, or write it to a file."""
    from pellucid.counting import parameter_count, with_vocabulary
    from pellucid.drawing import as_svg, as_text, assemble, place

    name, run = _read_run(arguments)
    model = with_vocabulary(run).model
    drawing = assemble(model, name)
    if arguments.svg is not None:
        write_output(Path(arguments.svg), as_svg(place(drawing, side_by_side=True)))
    file = {} if arguments.svg is None else {"file": arguments.svg}
    facts = _facts(drawing) | {"parameters": parameter_count(model)} | file
    if arguments.svg is not None:
        lines = [f"{arguments.svg}: {name}, {drawing.sentence}"]
    else:
        lines = [as_text(place(drawing), ascii_only=not _spells_boxes())]
    print_result(arguments, facts, lines)


def _facts(drawing: Drawing) -> dict[str, object]:
    """The drawing for a program: its parts, each with the parameters of one and how often it is."""
    from pellucid.drawing import boxes

    parts = [
        {"name": box.name, "says": box.lines, "parameters_each": box.parameters, "times": box.times}
        for column in drawing.columns
        for box in boxes(column)
    ]
    return {"name": drawing.title, "says": drawing.sentence, "parts": parts}


def _read_run(arguments: argparse.Namespace) -> tuple[str, Run]:
    """The name of the drawing, and its run.

    Raises:
        ConfigError: neither a preset nor a run; or a run and a config.
    """
    name: str = arguments.what or "nano"
    if arguments.config is not None:
        if name not in PRESETS:
            raise ConfigError(
                f"{name} with --config {arguments.config}: a config needs a preset below it; name "
                "one, leave it out, or draw the run with --set"
            )
        from pellucid.runs.resolve_config import resolve_config

        run = resolve_config(preset=name, config_file=arguments.config, settings=arguments.set)
        return Path(arguments.config).stem, run
    return read_config_source(name, arguments.set)


def _spells_boxes() -> bool:
    """Whether standard output's encoding has the characters of boxes."""
    try:
        "┌┼▼▶╌".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
