"""`pellucid evaluate`: how well a run predicts a text, or does its task on rows."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import BEAMS, integer
from pellucid.cli.flags.shared import (
    add_corpus,
    add_device,
    add_run,
    add_weights,
    finish_parser,
    list_given,
)
from pellucid.cli.flags.token_ids import add_ids, read_texts
from pellucid.cli.output.printing import align_values, print_result
from pellucid.errors import ConfigError

if TYPE_CHECKING:
    from pellucid.evaluation.held_out_text import Evaluation
    from pellucid.runs import Run

#: Flags for runs that learn from rows.
_FOR_ROWS = ("columns", "limit", "write", "beams")


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "evaluate",
        help="measure how well a run does on other data",
        description="Loss, perplexity and bits per byte of a run's model on text files. For a run "
        "that learns from rows (pairs, labels, conversations, preferences, prompts): the loss and "
        "the metrics of its objective on such rows. Without a PATH, pellucid scores the run's own "
        "held-out data.",
    )
    add_run(parser)
    add_corpus(parser, nargs="*")
    add_ids(
        parser,
        "each PATH holds token ids, a text a line: for a model without a tokenizer",
    )
    rows = parser.add_argument_group("rows", "For runs that learn from rows.")
    rows.add_argument(
        "--columns",
        action="append",
        default=[],
        metavar="NAME=COLUMN",
        help="which column of a row holds what (default: as the run read them)",
    )
    rows.add_argument(
        "--limit", type=integer(), metavar="N", help="N examples at most, from all over the data"
    )
    rows.add_argument(
        "--write",
        action="store_true",
        help="let the run write, and compare: BLEU, chrF, exact match (the extra bleu)",
    )
    rows.add_argument("--beams", type=BEAMS, metavar="N", help="how it writes: 1, the default, is "
                      "greedy")  # fmt: skip
    rows.add_argument("--reward", metavar="M:F", help="for policy-gradient: as in pellucid train")
    add_device(parser)
    add_weights(parser)
    finish_parser(parser, call, force=True)


def call(arguments: argparse.Namespace) -> None:
    """Print the scores on rows, on text files, or on the run's own held-out data."""
    from pellucid import runs

    run = runs.load(
        arguments.run,
        device=arguments.device,
        weights=arguments.weights,
        calibrate=arguments.calibrate,
    )
    if arguments.ids:
        _print_ids_score(run, arguments)
        return
    if runs.learns_from_rows(run):
        from pellucid.cli.output.evaluation import print_example_scores

        print_example_scores(run, arguments)
        return
    if flags := list_given(arguments, _FOR_ROWS):
        raise ConfigError(
            f"{flags}: this run learns from a text end to end, and not from rows: leave it out"
        )
    if arguments.paths:
        _print_text_score(run, arguments)
        return
    from pellucid.cli.output.evaluation import print_held_out_score

    print_held_out_score(run, arguments)


def _print_ids_score(run: Run, arguments: argparse.Namespace) -> None:
    """The loss over texts of token ids."""
    from pellucid import runs

    if flags := list_given(arguments, (*_FOR_ROWS, "field")):
        raise ConfigError(f"{flags}: --ids reads token ids, without columns: leave it out")
    result = runs.evaluate(run, ids=read_texts(arguments.paths), force=arguments.force)
    _print_result(arguments, result)


def _print_text_score(run: Run, arguments: argparse.Namespace) -> None:
    """The loss in its three units."""
    from pellucid import runs

    _print_result(
        arguments,
        runs.evaluate(run, arguments.paths, field=arguments.field, force=arguments.force),
    )


def _print_result(arguments: argparse.Namespace, result: Evaluation) -> None:
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
    print_result(arguments, facts, _format(result))


def _format(result: Evaluation) -> list[str]:
    mark = "" if result.comparable else "  (not comparable with other tokenizers)"
    rows = [
        ("loss", f"{result.loss_nats:.4f} nats per token"),
        ("perplexity", f"{result.perplexity:.2f} per token"),
    ]
    if result.n_bytes is None:
        return align_values([*rows, ("over", f"{result.tokens:,} tokens")])
    rows += [
        ("bits per byte", f"{result.bits_per_byte:.4f}{mark}"),
        ("over", f"{result.tokens:,} tokens, {result.n_bytes:,} bytes"),
    ]
    if result.unknown_tokens:
        rows.append(
            ("unknown", f"{result.unknown_tokens:,} tokens that the tokenizer cannot spell")
        )
    if result.changed_documents:
        documents = f"{result.changed_documents:,} documents do not come back as they were:"
        rows += [("changed", documents), ("", "letters or white space")]
    if not result.comparable:
        hidden = "it did not predict hidden characters"
        rows += [("", "bits per byte flatter the model:"), ("", hidden)]
    return align_values(rows)
