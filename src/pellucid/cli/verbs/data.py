"""`pellucid data`: count or prepare a corpus; `cli/verbs/datasets.py` gets public ones."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import integer
from pellucid.cli.flags.shared import add_corpus, add_settings, finish_parser
from pellucid.cli.output.printing import align_values, print_result
from pellucid.cli.verbs import datasets

if TYPE_CHECKING:
    from pellucid.runs.survey_corpus import CorpusReport


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
        help="count documents, bytes, tokens and skipped rows",
        description="Read a corpus as training would. Count documents, bytes, tokens, bytes per "
        "token, duplicates, and the rows and files that training skips.",
    )
    add_corpus(report, nargs="+")
    report.add_argument("--preset", default="nano", metavar="NAME", help="whose tokenizer to train")
    add_settings(report, example="text.tokenizer=Bytes")
    finish_parser(report, call)
    preparing = actions.add_parser(
        "prepare",
        help="encode a corpus once, into a folder or to a URL, for many runs",
        description="Read and encode a corpus as training would. Write it with its tokenizer and "
        "the checksums of its shards to a folder, or to a URL such as s3://bucket/folder. "
        "pellucid train FOLDER-OR-URL learns from it.",
    )
    add_corpus(preparing, nargs="+")
    preparing.add_argument(
        "--out", default="prepared", metavar="PLACE", help="a new folder (prepared), or a URL"
    )
    preparing.add_argument(
        "--preset", default="nano", metavar="NAME", help="whose tokenizer to train"
    )
    preparing.add_argument(
        "--shard-bytes",
        type=integer(4, 2**30),
        default=2**20,
        metavar="N",
        help="bytes of tokens that a run fetches at once from a URL (default 1 MiB)",
    )
    preparing.add_argument(
        "--processes",
        type=integer(1, 1024),
        default=1,
        metavar="N",
        help="processes that encode (default: 1, which keeps about ten processors busy)",
    )
    add_settings(preparing, example="text.held_out=0.01")
    finish_parser(preparing, _prepare)
    datasets.add_to(actions)


def call(arguments: argparse.Namespace) -> None:
    """Print the counts, one per line."""
    from pellucid import runs
    from pellucid.runs.resolve_config import resolve_config

    run = resolve_config(
        arguments.paths, field=arguments.field, preset=arguments.preset, settings=arguments.set
    )
    report = runs.count_corpus(run.text, lambda phase: print(f"{phase} …", file=sys.stderr))
    facts = {
        "documents": report.documents,
        "bytes": report.n_bytes,
        "tokens": report.n_tokens,
        "unknown_tokens": report.unknown,
        "changed_documents": report.changed_documents,
        "bytes_per_token": report.bytes_per_token,
        "vocab_size": report.vocab_size,
        "longest_bytes": report.longest_bytes,
        "longest": report.longest,
        "sha256": report.sha256,
    }
    print_result(arguments, facts | asdict(report.tally), _format(report))


def _prepare(arguments: argparse.Namespace) -> None:
    """Write the folder, and print what it holds."""
    from pellucid.runs import prepare_folder
    from pellucid.runs.resolve_config import resolve_config

    run = resolve_config(
        arguments.paths, field=arguments.field, preset=arguments.preset, settings=arguments.set
    )
    facts = prepare_folder(
        run.text,
        arguments.out,
        shard_bytes=arguments.shard_bytes,
        n_processes=arguments.processes,
        notify=lambda phase: print(f"{phase} …", file=sys.stderr),
    )
    rows = [
        ("tokens", f"{facts['tokens']:,} to train on, {facts['held_out_tokens']:,} held out"),
        ("shards", f"{facts['shards']:,} of {facts['shard_bytes']:,} bytes"),
        ("train", f"pellucid train {arguments.out}"),
    ]
    print_result(arguments, facts, align_values(rows))


def _format(report: CorpusReport) -> list[str]:
    tally = report.tally
    fate = "dropped" if tally.duplicates_dropped else "kept; --set text.drop_duplicates=true"
    table_rows = f", {tally.rows:,} rows in {tally.tables:,} tables" if tally.tables else ""
    rows = [
        ("files", f"{tally.files:,}{table_rows}"),
        ("documents", f"{report.documents:,}, the longest {report.longest_bytes:,} bytes"),
        ("bytes", f"{report.n_bytes:,}"),
        ("tokens", f"{report.n_tokens:,} of a vocabulary of {report.vocab_size:,}"),
        ("bytes per token", f"{report.bytes_per_token:.2f}"),
        ("unknown", f"{report.unknown:,} tokens that the tokenizer cannot spell"),
        ("changed", f"{report.changed_documents:,} documents do not come back as they were"),
        ("duplicates", f"{tally.duplicates:,} ({tally.duplicate_bytes:,} bytes; {fate})"),
        ("skipped", f"{tally.empty_rows:,} empty rows, {tally.other_files:,} other files"),
        ("content", report.sha256[:12]),
    ]
    zero = {"unknown": not report.unknown, "changed": not report.changed_documents}
    return align_values((label, value) for label, value in rows if not zero.get(label))
