"""`pellucid import`: a published model becomes a run."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from pellucid.cli.output.streams import add_force, add_json, print_json


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "import",
        help="make a run of a published model, or of adapters",
        description="Make a run of a Hugging Face directory (config.json, safetensors and a "
        "tokenizer), of a llama2.c file, or of adapters that peft wrote and the model they were "
        "trained on. Nothing is downloaded, and pickles are not read.",
    )
    parser.add_argument("source", metavar="DIR", help="the directory, or a llama2.c .bin file")
    parser.add_argument(
        "--base", metavar="RUN", help="of adapters: the run or published model they were trained on"
    )
    parser.add_argument("run", metavar="RUN", help="the run's folder, which is made")
    parser.add_argument(
        "--tokenizer", metavar="FILE", help="a tokenizer's file or folder, where DIR has none"
    )
    add_force(parser)
    add_json(parser)
    parser.set_defaults(call=call)


def call(arguments: argparse.Namespace) -> None:
    """Import it; say what came of it and what was left out."""
    from pellucid import runs

    imported = runs.import_model(
        arguments.source,
        arguments.run,
        tokenizer=arguments.tokenizer,
        base=arguments.base,
        force=arguments.force,
    )
    if arguments.json:
        print_json(asdict(imported) | {"folder": str(imported.folder)})
        return
    print(f"{imported.folder}: a {imported.family} of {imported.parameters:,} parameters")
    for name, why in imported.left_out.items():
        print(f"left out: {name} ({why})")
    if imported.kind == "encoder":
        print(f"use it: pellucid embed {imported.folder} TEXT ...")
    else:
        print(f"use it: pellucid generate {imported.folder} --prompt ...")
