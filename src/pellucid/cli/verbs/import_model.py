"""`pellucid import`: make a run from a published model."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import print_result


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "import",
        help="make a run from a published model, or from adapters",
        description="Make a run from a Hugging Face directory (config.json, safetensors and a "
        "tokenizer), from a llama2.c file, or from adapters of peft and the model they were "
        "trained on. pellucid downloads nothing and reads no pickles.",
    )
    parser.add_argument("source", metavar="DIR", help="the directory, or a llama2.c .bin file")
    parser.add_argument(
        "--base",
        metavar="RUN",
        help="for adapters: the run or model they were trained on",
    )
    parser.add_argument("run", metavar="RUN", help="the run's new folder")
    parser.add_argument(
        "--tokenizer", metavar="FILE", help="a tokenizer's file or folder, if DIR has none"
    )
    finish_parser(parser, call, force=True)


def call(arguments: argparse.Namespace) -> None:
    """Import the model; print its size and the parts that a run cannot hold."""
    from pellucid import runs

    imported = runs.import_model(
        arguments.source,
        arguments.run,
        tokenizer=arguments.tokenizer,
        base=arguments.base,
        force=arguments.force,
    )
    verb = "embed {} TEXT ..." if imported.kind == "encoder" else "generate {} --prompt ..."
    lines = [
        f"{imported.folder}: a {imported.family} of {imported.parameters:,} parameters",
        *(f"left out: {name} ({reason})" for name, reason in imported.left_out.items()),
        f"use it: pellucid {verb.format(imported.folder)}",
    ]
    facts = asdict(imported) | {"folder": str(imported.folder)}
    print_result(arguments, facts, lines)
