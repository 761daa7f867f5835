"""`pellucid export`: a run becomes a directory that `transformers` reads."""

from __future__ import annotations

import argparse
from typing import Any

from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import print_result
from pellucid.errors import ConfigError


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "export",
        help="write a run as a Hugging Face directory",
        description="Write a run's model and tokenizer so that transformers loads them with "
        "from_pretrained. If no known family has the model's parts, pellucid names them. It merges "
        "adapters, or writes them alone for peft with --adapter.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder, or one of its checkpoints")
    parser.add_argument("out", metavar="DIR", help="the new directory")
    parser.add_argument(
        "--adapter", action="store_true", help="write the run's adapters (train --lora) alone"
    )
    parser.add_argument(
        "--base", metavar="DIR", help="with --adapter: where peft finds the exported base"
    )
    finish_parser(parser, call, force=True)


def call(arguments: argparse.Namespace) -> None:
    """Export the run, and print its family."""
    from pellucid import runs

    if arguments.adapter:
        exported = runs.export_adapter(arguments.run, arguments.out, base=arguments.base)
    elif arguments.base is not None:
        raise ConfigError(f"--base {arguments.base} is for adapters: give --adapter too")
    else:
        exported = runs.export_run(arguments.run, arguments.out)
    reader = "peft" if arguments.adapter else "transformers"
    text = f"{exported.folder}: a {exported.family}, for {reader} and for pellucid"
    facts = {"folder": str(exported.folder), "family": exported.family}
    print_result(arguments, facts, [text])
