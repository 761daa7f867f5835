"""`pellucid evaluate`: how well a run predicts a text."""

from __future__ import annotations

import argparse
from typing import Any

from pellucid.cli.output import add_json, add_run, print_json


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "evaluate",
        help="measure how well a run predicts a text",
        description="Loss, perplexity and bits per byte of a run's model on text files.",
    )
    add_run(parser)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, folders, patterns, or -")
    parser.add_argument("--field", metavar="F", help="the field of a table that holds the text")
    parser.add_argument("--device", default="cpu", metavar="D")
    add_json(parser)
    parser.set_defaults(call=call)


def call(arguments: argparse.Namespace) -> None:
    """Print the loss in its three units."""
    from pellucid import runs

    run = runs.load(arguments.run, device=arguments.device)
    result = runs.evaluate(run, arguments.paths, field=arguments.field)
    facts = {
        "loss_nats": result.loss_nats,
        "perplexity": result.perplexity,
        "bits_per_byte": result.bits_per_byte,
        "tokens": result.tokens,
        "bytes": result.n_bytes,
        "unknown_tokens": result.unknown_tokens,
        "changed_documents": result.changed_documents,
        "bits_per_byte_comparable": result.comparable,
    }
    if arguments.json:
        print_json(facts)
        return
    print(f"loss           {result.loss_nats:.4f} nats per token")
    print(f"perplexity     {result.perplexity:.2f} per token")
    mark = "" if result.comparable else "  (not comparable with those of other tokenizers)"
    print(f"bits per byte  {result.bits_per_byte:.4f}{mark}")
    print(f"over           {result.tokens:,} tokens, {result.n_bytes:,} bytes")
    if result.unknown_tokens:
        print(f"unknown        {result.unknown_tokens:,} tokens that the tokenizer cannot spell")
    if result.changed_documents:
        print(
            f"changed        {result.changed_documents:,} documents do not come back as they were: "
            "letters or white space"
        )
    if not result.comparable:
        print("               what is hidden was not predicted: bits per byte flatter the model")
