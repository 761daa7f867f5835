"""`pellucid classify`: the class of a text, with its probability."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.read_texts import add_texts, read_texts
from pellucid.cli.flags.shared import add_device, add_force, add_json, add_run
from pellucid.cli.output.printing import print_json

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
    add_device(parser)
    add_force(parser)
    add_json(parser)
    parser.set_defaults(call=call)


def call(arguments: argparse.Namespace) -> None:
    """Print a line for each text, or all as JSON."""
    from pellucid import runs

    texts = read_texts(arguments, purpose="classify")
    run = runs.load(arguments.run, device=arguments.device)
    predictions = runs.classify(run, texts)
    if arguments.json:
        multi_label = runs.has_several_labels(run)
        print_json(
            {
                "multi_label": multi_label,
                "texts": [_facts(prediction) for prediction in predictions],
            }
        )
    elif arguments.all:
        _print_all(predictions)
    else:
        _print(predictions)
    cut = sum(prediction.truncated for prediction in predictions)
    if cut and not arguments.json:
        texts_were = "1 text was" if cut == 1 else f"{cut:,} texts were"
        longest = run.model.context_length
        print(f"\n{texts_were} cut to the first {longest:,} tokens, which is all the model reads")


def _facts(prediction: Classified) -> dict[str, Any]:
    return {
        "text": prediction.text,
        "classes": list(prediction.classes),
        "probabilities": {share.name: share.probability for share in prediction.shares},
        "truncated": prediction.truncated,
    }


def _print(predictions: list[Classified]) -> None:
    from pellucid.cli.output.printing import shorten
    from pellucid.display import visible

    labels = [visible(_format_classes(prediction)) for prediction in predictions]
    width = max(len(label) for label in labels)
    for prediction, label in zip(predictions, labels, strict=True):
        print(f"{label:<{width}}  {shorten(prediction.text)}")


def _format_classes(prediction: Classified) -> str:
    shares = [
        f"{s.name} {s.probability:.4f}" for s in prediction.shares if s.name in prediction.classes
    ]
    likeliest = prediction.shares[0]
    return ", ".join(shares) or f"(none; {likeliest.name} {likeliest.probability:.4f})"


def _print_all(predictions: list[Classified]) -> None:
    from pellucid.cli.output.printing import shorten
    from pellucid.display import visible

    for place, prediction in enumerate(predictions):
        if len(predictions) > 1:
            print(f"{'' if place == 0 else chr(10)}{shorten(prediction.text)}")
        for share in prediction.shares:
            mark = "*" if share.name in prediction.classes else " "
            print(f"{share.probability:>10.4f} {mark} {visible(share.name)}")
