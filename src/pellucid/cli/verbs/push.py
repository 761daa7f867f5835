"""`pellucid push`: a run goes to a hub, such as Hugging Face's."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import print_result


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "push",
        help="upload a run to a hub, privately",
        description="Upload a run's model, tokenizer and card so that others load it by its name, "
        "with pellucid or with transformers. A new repository is private unless you pass --public. "
        "The address, the cache and your token come from huggingface_hub (HF_ENDPOINT, HF_HOME, "
        "HF_TOKEN, or hf auth login).",
    )
    parser.add_argument(
        "run", metavar="RUN", help="a run, one of its checkpoints, or a Hugging Face directory"
    )
    parser.add_argument("name", metavar="OWNER/NAME", help="the repository; made if there is none")
    parser.add_argument("--public", action="store_true", help="everyone may see it")
    finish_parser(parser, call)


def call(arguments: argparse.Namespace) -> None:
    """Upload the run, and print its address."""
    from pellucid import runs

    pushed = runs.push_run(arguments.run, arguments.name, public=arguments.public)
    visibility = "only you can see it" if pushed.private else "everyone can see it"
    text = f"{pushed.address}: {pushed.n_bytes:,} bytes; {visibility}"
    print_result(
        arguments, asdict(pushed), [text, f"\nwhat next\n    pellucid generate {pushed.name}"]
    )
