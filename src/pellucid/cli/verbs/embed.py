"""`pellucid embed`: texts as vectors, and which of them are close."""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.read_texts import add_texts, read_texts
from pellucid.cli.flags.shared import add_run, finish_parser
from pellucid.cli.output.printing import TEXT_WIDTH, print_result, shorten
from pellucid.errors import ConfigError
from pellucid.printable import plural

if TYPE_CHECKING:
    from pellucid.inference.embedding import Vectors

#: How many numbers of a vector are shown to people.
_PREVIEW_NUMBERS = 8


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "embed",
        help="turn texts into vectors, and compare them",
        description="Turn each text into one vector, pooled over its tokens. Several texts are "
        "compared by cosine. Without a text, pellucid reads standard input, one text per line.",
    )
    add_run(parser)
    add_texts(parser)
    parser.add_argument(
        "--pool",
        default="mean",
        metavar="P",
        help="mean of a text's tokens (the default), first token, last token, or pooler (BERT's)",
    )
    parser.add_argument(
        "--no-normalise", action="store_true", help="leave vectors as long as they are, not 1"
    )
    parser.add_argument("--like", metavar="TEXT", help="rank the texts by closeness to this one")
    parser.add_argument("--out", metavar="FILE", help="write the vectors to a .npy file")
    finish_parser(parser, call, device=True, force=True)


def call(arguments: argparse.Namespace) -> None:
    """Print which texts are close, or everything as JSON; write the vectors with `--out`."""
    from pellucid import runs
    from pellucid.disk import check_output

    if arguments.out is not None and not arguments.out.endswith(".npy"):
        raise ConfigError(f"--out {arguments.out}: expected a name that ends in .npy")
    if arguments.out is not None:
        check_output(Path(arguments.out))
    texts = read_texts(arguments, purpose="embed")
    run = runs.load(arguments.run, device=arguments.device)
    all_texts = texts if arguments.like is None else [*texts, arguments.like]
    vectors = runs.embed(
        run,
        all_texts,
        pool=arguments.pool,
        normalise=not arguments.no_normalise,
        force=arguments.force,
    )
    query_vectors = vectors[len(texts) :]
    vectors = vectors[: len(texts)]
    if arguments.out is not None:
        _save(Path(arguments.out), vectors)
    facts = _facts(texts, vectors, query_vectors, arguments) if arguments.json else None
    print_result(arguments, facts, _format(texts, vectors, query_vectors, arguments))


def _format(
    texts: list[str], vectors: Vectors, query_vectors: Vectors, arguments: argparse.Namespace
) -> Iterator[str]:
    from pellucid import runs

    vectors_are = f"{len(texts):,} {plural(len(texts), 'vector')}"
    yield f"{vectors_are} of {vectors.shape[1]:,} numbers, pooled by {arguments.pool}\n"
    if arguments.like is not None:
        for neighbour in runs.ranked(vectors, query_vectors):
            yield f"{neighbour.cosine:>8.4f}  {shorten(texts[neighbour.text])}"
    elif len(texts) > 1:
        width = min(TEXT_WIDTH, max(4, *(len(shorten(text)) for text in texts)))
        yield f"{'text':<{width}}  {'cosine':>7}  nearest"
        for neighbour in runs.neighbours(vectors):
            text, nearest = shorten(texts[neighbour.text]), shorten(texts[neighbour.nearest])
            yield f"{text:<{width}}  {neighbour.cosine:>7.4f}  {nearest}"
    else:
        yield " ".join(f"{number:.4f}" for number in vectors[0, :_PREVIEW_NUMBERS]) + " ..."
        yield "\nall of them: --json, or --out FILE.npy"


def _save(file: Path, vectors: Vectors) -> None:
    import numpy as np

    from pellucid.disk import write_output_bytes

    content = io.BytesIO()
    np.save(content, vectors)
    write_output_bytes(file, content.getvalue())


def _facts(
    texts: list[str], vectors: Vectors, query_vectors: Vectors, arguments: argparse.Namespace
) -> dict[str, Any]:
    from pellucid import runs

    rows: list[dict[str, Any]] = [{"text": text} for text in texts]
    if arguments.out is None:
        for row, vector in zip(rows, vectors, strict=True):
            row["vector"] = vector.tolist()
    facts: dict[str, Any] = {"pool": arguments.pool, "normalised": not arguments.no_normalise}
    if arguments.out is not None:
        facts["file"] = arguments.out
    if arguments.like is not None:
        facts["like"] = arguments.like
        for rank, neighbour in enumerate(runs.ranked(vectors, query_vectors), start=1):
            rows[neighbour.text] |= {"cosine": neighbour.cosine, "rank": rank}
    elif len(texts) > 1:
        for neighbour in runs.neighbours(vectors):
            rows[neighbour.text] |= {"nearest": neighbour.nearest, "cosine": neighbour.cosine}
    return facts | {"texts": rows}
