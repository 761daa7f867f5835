"""`pellucid classify`: the class of a text, with its probability."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pellucid.cli.output import add_force, add_json, add_run, print_json
from pellucid.cli.texts import add_texts, texts_of

if TYPE_CHECKING:
    from pellucid.runs.classify import Classified


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "classify",
        help="name the class of a text",
        description="The class of each text with its probability, by a run that was trained to "
        "tell classes apart. Without a text, read them from standard input, one a line.",
    )
    add_run(parser)
    add_texts(parser)
    parser.add_argument("--all", action="store_true", help="show every class, the likeliest first")
    parser.add_argument("--device", default="cpu", metavar="D")
    add_force(parser)
    add_json(parser)
    parser.set_defaults(call=call, list_of_words="texts")


def call(arguments: argparse.Namespace) -> None:
    """Print a line for each text, or all as JSON."""
    from pellucid import runs

    texts = texts_of(arguments, to="classify")
    run = runs.load(arguments.run, device=arguments.device)
    found = runs.classify(run, texts)
    if arguments.json:
        several = runs.has_several_labels(run)
        print_json({"multi_label": several, "texts": [_facts(one) for one in found]})
    elif arguments.all:
        _print_all(found)
    else:
        _print(found)
    cut = sum(one.truncated for one in found)
    if cut and not arguments.json:
        texts_were = "1 text was" if cut == 1 else f"{cut:,} texts were"
        longest = run.model.context_length
        print(f"\n{texts_were} cut to the first {longest:,} tokens, which is all the model reads")


def _facts(one: Classified) -> dict[str, Any]:
    return {
        "text": one.text,
        "classes": list(one.classes),
        "probabilities": {share.name: share.probability for share in one.shares},
        "truncated": one.truncated,
    }


def _print(found: list[Classified]) -> None:
    from pellucid.cli.texts import line
    from pellucid.display import visible

    said = [visible(_said(one)) for one in found]
    width = max(len(each) for each in said)
    for one, each in zip(found, said, strict=True):
        print(f"{each:<{width}}  {line(one.text)}")


def _said(one: Classified) -> str:
    shares = [f"{s.name} {s.probability:.4f}" for s in one.shares if s.name in one.classes]
    likeliest = one.shares[0]
    return ", ".join(shares) or f"(none; {likeliest.name} {likeliest.probability:.4f})"


def _print_all(found: list[Classified]) -> None:
    from pellucid.cli.texts import line
    from pellucid.display import visible

    for place, one in enumerate(found):
        if len(found) > 1:
            print(f"{'' if place == 0 else chr(10)}{line(one.text)}")
        for share in one.shares:
            mark = "*" if share.name in one.classes else " "
            print(f"{share.probability:>10.4f} {mark} {visible(share.name)}")
