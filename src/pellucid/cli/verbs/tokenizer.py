"""`pellucid tokenizer`: train, show and compare tokenizers."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import TOKENS_KNOWN
from pellucid.cli.flags.shared import add_corpus, finish_parser
from pellucid.cli.output.printing import cut, print_result
from pellucid.errors import TextError

if TYPE_CHECKING:
    from pellucid import config
    from pellucid.data import Piece
    from pellucid.tokenizers import Tokenizer

#: The kinds of config by the words of `--kind`.
_KINDS = {
    "bytes": "Bytes",
    "characters": "Characters",
    "words": "Words",
    "byte-pairs": "BytePairs",
    "wordpiece": "WordPiece",
}
_COMPARISON_NOTE = """
Do not compare perplexities of different tokenizers: they are per token, and the
tokens differ. Bits per byte spread the same loss over the bytes of the text:
compare those. They flatter the model in rows with a mark, because it does not
predict unknown or changed characters."""
_FOREIGN_NOTE = """
A tokenizer from a file was trained on another text: its vocabulary was not made
for this one, or this text was part of that one."""


def add_to(verbs: Any) -> None:
    """The verb, its three sub-verbs and their flags."""
    parser = verbs.add_parser("tokenizer", help="train, show and compare tokenizers")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    training = actions.add_parser("train", help="train a tokenizer on text files")
    add_corpus(training, nargs="+")
    training.add_argument("--kind", choices=_KINDS, default="byte-pairs")
    training.add_argument("--vocab-size", type=TOKENS_KNOWN, default=4096, metavar="N")
    training.add_argument("--lowercase", action="store_true", help="for wordpiece")
    training.add_argument("--out", default="tokenizer.json", metavar="FILE")
    showing = actions.add_parser("show", help="show how a text becomes tokens, merge by merge")
    showing.add_argument("text", metavar="TEXT")
    showing.add_argument("--tokenizer", metavar="FILE-OR-RUN", help="default: bytes")
    comparing = actions.add_parser("compare", help="compare several kinds on one text")
    add_corpus(comparing, nargs="+")
    comparing.add_argument("--vocab-size", type=TOKENS_KNOWN, default=4096, metavar="N")
    comparing.add_argument(
        "--with",
        dest="others",
        action="append",
        default=[],
        metavar="PATH",
        help="also this tokenizer: tokenizer.json, GPT-2's pair, vocab.txt, or a run; may be "
        "repeated",
    )
    for action, call in ((training, _train), (showing, _show), (comparing, _compare)):
        finish_parser(action, call)


def _choice(kind: str, vocab_size: int, *, lowercase: bool) -> config.Tokenizer:
    from pellucid import config

    options = {"vocab_size": vocab_size, "lowercase": lowercase}
    kind_class = getattr(config, _KINDS[kind])
    return kind_class(**{field.name: options[field.name] for field in fields(kind_class)})


def _reader(paths: list[str], field: str | None) -> Callable[[], Iterator[Piece]]:
    """Reads the texts from their start, as often as it is called."""
    from pellucid import data

    piped = data.Piped()
    return lambda: data.read_pieces(paths, field, data.ReadCounts(), piped)


def _train(arguments: argparse.Namespace) -> None:
    from pellucid import data

    file = Path(arguments.out)
    if os.path.lexists(file):
        raise TextError(f"{file} is there already: name another file with --out")
    choice = _choice(arguments.kind, arguments.vocab_size, lowercase=arguments.lowercase)
    read = _reader(arguments.paths, arguments.field)
    tokenizer = data.assemble_tokenizer(choice, data.training_texts(read()))
    tokenizer.save(file)
    facts = asdict(data.measure(tokenizer, read()))
    lines = [
        f"{file}: {tokenizer.vocab_size:,} tokens, content {tokenizer.sha256[:12]}",
        f"on its own text: {facts['bytes_per_token']:.2f} bytes per token",
    ]
    if facts["unknown"]:
        lines.append(f"unknown: {facts['unknown']:,} of {facts['tokens']:,} tokens")
    if facts["changed"]:
        documents = f"{facts['changed']:,} of {facts['documents']:,} documents"
        lines.append(f"changed by a round trip: {documents}")
    print_result(arguments, {"file": str(file), "sha256": tokenizer.sha256, **facts}, lines)


def _show(arguments: argparse.Namespace) -> None:
    from pellucid.tokenizers import replay, tokenizer_from, train_bytes

    path = arguments.tokenizer
    tokenizer = train_bytes() if path is None else tokenizer_from(Path(path))
    ids = tokenizer.encode(arguments.text)
    rows = [(i, tokenizer.token(i), tokenizer.bytes_of(i)) for i in ids]
    words = replay(tokenizer, arguments.text)
    decoded = tokenizer.decode(ids)
    facts = {
        "tokens": [
            {"id": i, "token": token, "bytes": None if raw is None else raw.hex(" ")}
            for i, token, raw in rows
        ],
        "merges": [asdict(word) for word in words],
        "decoded": decoded,
        "round_trip": decoded == arguments.text,
    }
    lines = [f"{'id':>7}  {'token':<24}  bytes"]
    for i, token, raw in rows:
        mark = "  unknown" if i == tokenizer.unknown_id else ""
        raw_text = "-" if raw is None else raw.hex(" ")
        lines.append(f"{i:>7}  {cut(repr(token), 24):<24}  {cut(raw_text, 40)}{mark}")
    for word in words:
        if word.steps:
            lines.append(f"\n{'':>8}{cut(' '.join(word.symbols), 70)}")
        lines += [f"{step.rank:>7} {cut(' '.join(step.symbols), 70)}" for step in word.steps]
    if decoded != arguments.text:
        lines.append(f"\nchanged by a round trip: {decoded!r}")
    print_result(arguments, facts, lines)


def _compare(arguments: argparse.Namespace) -> None:
    from pellucid import data
    from pellucid.tokenizers import tokenizer_from

    tokenizers = {path: tokenizer_from(Path(path)) for path in arguments.others}
    read = _reader(arguments.paths, arguments.field)
    parts = data.part(read, data.survey(read(), data.ReadCounts(), drop_duplicates=False), 0.1)
    rows: dict[str, Any] = {}
    for kind in _KINDS:
        choice = _choice(kind, arguments.vocab_size, lowercase=True)
        tokenizer = data.assemble_tokenizer(choice, data.training_texts(parts.train.pieces()))
        rows[kind] = _row(tokenizer, parts.held_out.pieces(), trained_here=True)
    for path, tokenizer in tokenizers.items():
        name = f"./{path}" if path in rows else path
        rows[name] = _row(tokenizer, parts.held_out.pieces(), trained_here=False)
    print_result(arguments, rows, _format_comparison(rows, parts.held_out.n_bytes))


def _format_comparison(rows: dict[str, Any], n_bytes: int) -> Iterator[str]:
    yield f"trained on 90% of the text, measured on the other 10%: {n_bytes:,} bytes\n"
    yield f"{'kind':<12} {'vocabulary':>10} {'tokens':>10} {'bytes each':>10} {'unknown':>8}  marks"
    labels = {name: f"file {n}" for n, name in enumerate(list(rows)[len(_KINDS) :], 1)}
    for kind, row in rows.items():
        line = (
            f"{labels.get(kind, kind):<12} {row['vocab_size']:>10,} {row['tokens']:>10,} "
            f"{row['bytes_per_token']:>10.2f} {row['unknown']:>8,}  {_marks(row)}"
        )
        yield line.rstrip()
    yield _COMPARISON_NOTE
    if labels:
        yield _FOREIGN_NOTE
    for name, label in labels.items():
        yield f"{label}  {name}"


def _row(tokenizer: Tokenizer, held_out: Iterable[Piece], *, trained_here: bool) -> Any:
    from pellucid import data

    measurement = data.measure(tokenizer, held_out)
    return asdict(measurement) | {
        "lowercased": "".join(tokenizer.words("ABC")) == "abc",
        "trained_here": trained_here,
        "bits_per_byte_comparable": not (measurement.unknown or measurement.changed),
    }


def _marks(row: dict[str, Any]) -> str:
    marks = ["unknown"] if row["unknown"] else []
    if row["lowercased"]:
        marks.append("lower-cased")
    elif row["changed"] and not row["unknown"]:
        marks.append("changed")
    return ", ".join(marks)
