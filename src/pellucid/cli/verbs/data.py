"""`pellucid data`: what a corpus holds; and public ones, in `cli/verbs/datasets.py`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

from pellucid.cli.output.streams import add_json, print_json
from pellucid.cli.verbs import datasets


def add_to(verbs: Any) -> None:
    """The verb, its actions and their flags."""
    parser = verbs.add_parser(
        "data",
        help="get a public dataset, look at a corpus",
        description="Get a public dataset, or look at a corpus before training on it.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    report = actions.add_parser(
        "report",
        help="documents, bytes, tokens, and what is left out",
        description="Read a corpus as training would, and count: documents, bytes, tokens, bytes "
        "per token, duplicates, and what is left out and why.",
    )
    report.add_argument("paths", nargs="+", metavar="PATH", help="files, folders, patterns, or -")
    report.add_argument("--field", metavar="F", help="the field of a table that holds the text")
    report.add_argument("--preset", default="nano", metavar="NAME", help="whose tokenizer to train")
    report.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="any value of the config, such as text.tokenizer=Bytes",
    )
    add_json(report)
    report.set_defaults(call=call)
    datasets.add_to(actions)


def call(arguments: argparse.Namespace) -> None:
    """Print the counts, one a line."""
    from pellucid import runs
    from pellucid.runs.resolve_config import resolve_config

    run = resolve_config(
        arguments.paths, field=arguments.field, preset=arguments.preset, settings=arguments.set
    )
    report = runs.count_corpus(run.text, lambda phase: print(f"{phase} …", file=sys.stderr))
    tally = report.tally
    if arguments.json:
        print_json(
            {
                "documents": report.documents,
                "bytes": report.n_bytes,
                "tokens": report.n_tokens,
                "unknown_tokens": report.unknown,
                "changed_documents": report.changed,
                "bytes_per_token": report.bytes_per_token,
                "vocab_size": report.vocab_size,
                "longest_bytes": report.longest_bytes,
                "longest": report.longest,
                "sha256": report.sha256,
            }
            | asdict(tally)
        )
        return
    fate = "dropped" if tally.duplicates_dropped else "kept; --set text.drop_duplicates=true"
    rows = f", {tally.rows:,} rows in {tally.tables:,} tables" if tally.tables else ""
    print(f"files            {tally.files:,}{rows}")
    print(f"documents        {report.documents:,}, the longest {report.longest_bytes:,} bytes")
    print(f"bytes            {report.n_bytes:,}")
    print(f"tokens           {report.n_tokens:,} of a vocabulary of {report.vocab_size:,}")
    print(f"bytes per token  {report.bytes_per_token:.2f}")
    if report.unknown:
        print(f"unknown          {report.unknown:,} tokens that the tokenizer cannot spell")
    if report.changed:
        print(f"changed          {report.changed:,} documents do not come back as they were")
    print(f"duplicates       {tally.duplicates:,} ({tally.duplicate_bytes:,} bytes; {fate})")
    print(f"skipped          {tally.empty_rows:,} empty rows, {tally.other_files:,} other files")
    print(f"content          {report.sha256[:12]}")
