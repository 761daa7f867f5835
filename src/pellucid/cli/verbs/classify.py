"""`pellucid classify`: the class of a text, with its probability."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.read_texts import add_texts, read_texts
from pellucid.cli.flags.shared import add_run, finish_parser
from pellucid.cli.output.printing import print_result, shorten

if TYPE_CHECKING:
    from pellucid.inference.classification import Classified


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "classify",
        help="name the class of a text",
        description="Print the class of each text with its probability. The run must be a "
        "classifier. Without a text, pellucid reads standard input, one text per line.",
    )
    add_run(parser)
    add_texts(parser)
    parser.add_argument("--all", action="store_true", help="show every class, the likeliest first")
    finish_parser(parser, call, device=True, force=True)


def call(arguments: argparse.Namespace) -> None:
    """Print a line for each text, or all as JSON."""
    from pellucid import runs

    texts = read_texts(arguments, purpose="classify")
    run = runs.load(arguments.run, device=arguments.device)
    predictions = runs.classify(run, texts)
    facts = {
        "multi_label": runs.has_several_labels(run),
        "texts": [_facts(prediction) for prediction in predictions],
    }
    lines = _all_classes(predictions) if arguments.all else _best_classes(predictions)
    print_result(arguments, facts, lines)
    n_cut = sum(prediction.truncated for prediction in predictions)
    if n_cut and not arguments.json:
        texts_were = "1 text was" if n_cut == 1 else f"{n_cut:,} texts were"
        longest = run.model.context_length
        print(f"\n{texts_were} cut to the first {longest:,} tokens, which is all the model reads")


def _facts(prediction: Classified) -> dict[str, Any]:
    return {
        "text": prediction.text,
        "classes": list(prediction.classes),
        "probabilities": {share.name: share.probability for share in prediction.shares},
        "truncated": prediction.truncated,
    }


def _best_classes(predictions: list[Classified]) -> Iterator[str]:
    from pellucid.display import visible

    labels = [visible(_format_classes(prediction)) for prediction in predictions]
    width = max(len(label) for label in labels)
    for prediction, label in zip(predictions, labels, strict=True):
        yield f"{label:<{width}}  {shorten(prediction.text)}"


def _format_classes(prediction: Classified) -> str:
    shares = [
        f"{s.name} {s.probability:.4f}" for s in prediction.shares if s.name in prediction.classes
    ]
    likeliest = prediction.shares[0]
    return ", ".join(shares) or f"(none; {likeliest.name} {likeliest.probability:.4f})"


def _all_classes(predictions: list[Classified]) -> Iterator[str]:
    from pellucid.display import visible

    for place, prediction in enumerate(predictions):
        if len(predictions) > 1:
            yield f"{'' if place == 0 else chr(10)}{shorten(prediction.text)}"
        for share in prediction.shares:
            mark = "*" if share.name in prediction.classes else " "
            yield f"{share.probability:>10.4f} {mark} {visible(share.name)}"
