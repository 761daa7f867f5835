"""`pellucid evaluate`: how well a run predicts a text, or does what it learnt on rows."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import BEAMS, whole
from pellucid.cli.output.streams import add_force, add_json, add_run, add_weights, print_json
from pellucid.errors import ConfigError

if TYPE_CHECKING:
    from pellucid.runs import Run

#: What has a meaning only where a run learns from rows.
_OF_ROWS = ("columns", "limit", "write", "beams")


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "evaluate",
        help="measure how well a run does on other data",
        description="Loss, perplexity and bits per byte of a run's model on text files. Of a run "
        "that learns from rows (pairs, labels, conversations, preferences, prompts) the loss and "
        "the measures of its objective on rows of that kind. Without a PATH, on what the run "
        "itself kept out of training.",
    )
    add_run(parser)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files, folders, patterns, or -")
    parser.add_argument("--field", metavar="F", help="the field of a table that holds the text")
    rows = parser.add_argument_group("rows", "Where the run learns from rows.")
    rows.add_argument(
        "--columns",
        action="append",
        default=[],
        metavar="NAME=COLUMN",
        help="which column of a row holds what (default: as the run read them)",
    )
    rows.add_argument(
        "--limit", type=whole(), metavar="N", help="N examples at most, from all over the data"
    )
    rows.add_argument(
        "--write",
        action="store_true",
        help="let the run write, and compare: BLEU, chrF, exact match (the extra bleu)",
    )
    rows.add_argument("--beams", type=BEAMS, metavar="N", help="how it writes: 1, the default, is "
                      "greedy")  # fmt: skip
    rows.add_argument("--reward", metavar="M:F", help="for policy-gradient: as in pellucid train")
    parser.add_argument("--device", default="cpu", metavar="D")
    add_weights(parser)
    add_force(parser)
    add_json(parser)
    parser.set_defaults(call=call)


def call(arguments: argparse.Namespace) -> None:
    """Print what came out, as the run's data are text or rows."""
    from pellucid import runs

    run = runs.load(arguments.run, device=arguments.device, weights=arguments.weights)
    if runs.learns_from_rows(run):
        from pellucid.cli.output.evaluation import say_rows

        say_rows(run, arguments)
        return
    row_flags = [
        f"--{name}" for name in _OF_ROWS if getattr(arguments, name) not in (None, False, [])
    ]
    if row_flags:
        raise ConfigError(
            f"{', '.join(row_flags)}: this run learns from a text end to end, and not from rows: "
            "leave it out"
        )
    if arguments.paths:
        _say_text(run, arguments)
        return
    from pellucid.cli.output.evaluation import say_held_out

    say_held_out(run, arguments)


def _say_text(run: Run, arguments: argparse.Namespace) -> None:
    """The loss in its three units."""
    from pellucid import runs

    result = runs.evaluate(run, arguments.paths, field=arguments.field, force=arguments.force)
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
