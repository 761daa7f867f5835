"""`pellucid explain`: what a run makes of a sentence, token by token, and chapter by chapter."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.against import add_comparing_flags, compare_is_meant, other_trace
from pellucid.cli.flags.numbers import integer
from pellucid.cli.flags.shared import add_force, add_json, add_run
from pellucid.cli.output.printing import print_json
from pellucid.cli.verbs.serve import add_page_flags, page_was_asked_for, show_page
from pellucid.errors import ConfigError

if TYPE_CHECKING:
    from pellucid.explain import Trace
    from pellucid.explain.chapter_types import Place
    from pellucid.explain.forward_pass import HeadScale
    from pellucid.explain.inspection import Inspection
    from pellucid.runs import Run


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "explain",
        help="show what a run makes of a sentence, chapter by chapter",
        description="For each token of a sentence: the probability it was given by those before "
        "it, its surprisal, and the tokens that were expected there. With --chapter, one part of "
        "the sentence's way through the model: every number is the model's own, and has a receipt.",
    )
    add_run(parser)
    parser.add_argument("sentence", metavar="SENTENCE")
    parser.add_argument("--chapter", metavar="NAME", help="one chapter; without it they are listed")
    parser.add_argument("--all", action="store_true", help="all chapters, one after another")
    for name, default, meaning in (
        ("layer", 0, "the layer"),
        ("head", 0, "the head"),
        ("token", -1, "the token that looks; the last"),
        ("other", 0, "the token it looks at; the first"),
        ("feature", 0, "the feature that receipts are of"),
    ):
        text = f"{meaning}, counted from 0 (-1 is the last)"
        parser.add_argument(f"--{name}", type=integer(), default=default, metavar="N", help=text)
    parser.add_argument(
        "--weight",
        metavar="NAME",
        default="",
        help="the weight that is nudged and updated, such as feed_forward.up.weight of the layer, "
        "or token_embedding.weight",
    )
    for name in ("row", "column"):
        text = f"its {name}, counted from 0"
        parser.add_argument(f"--{name}", type=integer(), default=0, metavar="N", help=text)
    parser.add_argument(
        "--stack",
        choices=("decoder", "encoder"),
        default="decoder",
        help="of an encoder-decoder: which stack",
    )
    parser.add_argument(
        "--cross", action="store_true", help="of an encoder-decoder: its looks at the encoder"
    )
    parser.add_argument(
        "--target",
        metavar="TEXT",
        help="of an encoder-decoder: what its decoder reads (what it would write itself)",
    )
    parser.add_argument(
        "--ablate",
        action="append",
        default=[],
        metavar="HEAD",
        help="take a head away, such as L2.H1, scale it (L2.H1=0.5), or put its mean over the "
        "sentence in its place (L2.H1=mean); can be given again",
    )
    add_comparing_flags(parser)
    add_force(parser)
    add_json(parser)
    add_page_flags(parser)
    parser.set_defaults(call=call)


def call(arguments: argparse.Namespace) -> None:
    """Print a table of the tokens and the list of chapters, or one chapter, or all; or a page."""
    from pellucid import runs
    from pellucid.explain.chapters import find_chapter

    if arguments.all and arguments.chapter is not None:
        raise ConfigError("--all and --chapter were both given: leave one of them out")
    if arguments.chapter is not None:
        find_chapter(arguments.chapter)  # for its refusal, before anything is loaded
    scales = dict(map(_scale, arguments.ablate))
    if compare_is_meant(arguments) and not arguments.all:
        arguments.chapter = "compare"
    if page_was_asked_for(arguments):
        show_page(arguments, scales)
        return
    run = runs.load(arguments.run)
    if arguments.chapter is None and not arguments.all and not scales:
        _print_reading(run, arguments)
        return
    from pellucid.explain import trace

    traced = trace(run, arguments.sentence, target=arguments.target, force=arguments.force)
    if scales:
        original, traced = traced, traced.with_heads(scales)
        if arguments.chapter is None and not arguments.all:
            _print_change(original, traced, arguments)
            return
    versus = other_trace(arguments, run)
    if arguments.all:
        _print_all(traced, arguments, versus)
    else:
        chapter_name: str = arguments.chapter or ""
        _print_one(traced, chapter_name, arguments, versus)


def _place(arguments: argparse.Namespace) -> Place:
    from pellucid.explain.chapter_types import Place

    return Place(
        token=arguments.token,
        other=arguments.other,
        layer=arguments.layer,
        head=arguments.head,
        feature=arguments.feature,
        stack=arguments.stack,
        cross=arguments.cross,
        weight=arguments.weight,
        row=arguments.row,
        column=arguments.column,
    )


def _print_all(trace: Trace, arguments: argparse.Namespace, versus: Trace | None) -> None:
    """Every chapter, each as soon as it is read; one that the model does not have says why."""
    from pellucid.explain.chapter_json import plain_chapter
    from pellucid.explain.inspection import Refusal, Request, inspect, list_chapters

    place, payload = _place(arguments), list[dict[str, Any]]()
    for number, name in enumerate(list_chapters()):
        inspection = inspect(Request(trace=trace, chapters=(name,), place=place, versus=versus))
        (chapter,) = inspection.chapters
        refused = isinstance(chapter, Refusal)
        if arguments.json:
            refusal = {"id": name, "refused": chapter.reason} if refused else {}
            payload.append(refusal or plain_chapter(inspection.chapter()))
            continue
        if number:
            print("\n" + "-" * 80 + "\n")
        if refused:
            print(f"{name}: {chapter.reason}")
        else:
            _print_chapter(inspection)
    if arguments.json:
        print_json(payload)


def _print_chapter(inspection: Inspection) -> None:
    from pellucid.cli.output.chapter import lines_of

    for line in lines_of(inspection.chapter(), inspection.trace, inspection.selection):
        print(line)


def _print_one(
    trace: Trace, name: str, arguments: argparse.Namespace, versus: Trace | None = None
) -> None:
    """One chapter, on the terminal or as JSON."""
    from pellucid.explain.chapter_json import plain_chapter
    from pellucid.explain.inspection import Request, inspect

    request = Request(trace=trace, chapters=(name,), place=_place(arguments), versus=versus)
    inspection = inspect(request)
    if arguments.json:
        print_json(plain_chapter(inspection.chapter()))
        return
    _print_chapter(inspection)


def _scale(word: str) -> tuple[str, HeadScale]:
    head, equals, scale = word.partition("=")
    if scale == "mean":
        return head, "mean"
    try:
        return head, float(scale) if equals else 0.0
    except ValueError:
        raise ConfigError(
            f"--ablate {word}: {scale!r} is no number; write L2.H1=0.5 or L2.H1=mean"
        ) from None


def _print_change(original: Trace, ablated: Trace, arguments: argparse.Namespace) -> None:
    """What changed at the chosen token."""
    from pellucid.explain.ablation import change
    from pellucid.explain.receipts.outputs import piece
    from pellucid.explain.selection import select_place

    token = select_place(original, _place(arguments)).token
    difference = change(original, ablated, token)
    if arguments.json:
        print_json(asdict(difference))
        return
    heads = ", ".join(arguments.ablate)
    print(f"without {heads}, after token {original.pieces(original.side)[token]!r} ({token}):\n")
    print(f"  {'token':<18} {'p before':>9} {'p after':>9} {'change':>9}")
    for word, p_before, p_after in zip(
        difference.words, difference.before, difference.after, strict=True
    ):
        name = _cut(piece(original, word), 18)
        print(f"  {name:<18} {p_before:>9.4f} {p_after:>9.4f} {p_after - p_before:>+9.4f}")
    loss_text = "" if difference.loss is None else f"; the loss changed by {difference.loss:+.6f}"
    print(f"\nKL(before, after) {difference.kl:.6f} nats here{loss_text}")


def _print_reading(run: Run, arguments: argparse.Namespace) -> None:
    """A line per token, the whole and what would follow; then what else can be seen."""
    from pellucid import explain
    from pellucid.cli.output.chapter import contents
    from pellucid.display.terminal_text import folded, visible
    from pellucid.explain.chapters import CHAPTERS
    from pellucid.saved_runs.requirements import kind_of

    chapters = [{"id": entry.id, "about": entry.summary} for entry in CHAPTERS]
    if kind_of(run.model) != "decoder" or run.model.output_head.no_token_logits is not None:
        _print_tokens(run, arguments, chapters)
        return
    reading = explain.read_sentence(run, arguments.sentence)
    if arguments.json:
        print_json(asdict(reading) | {"bits": reading.bits, "chapters": chapters})
        return
    for line in _table(reading):
        print(line)
    for note in reading.notes:
        print("\n" + "\n".join(folded(visible(note), 80)))
    print("\nchapters, for --chapter (or --all):")
    for line in contents():
        print(line)


def _print_tokens(run: Run, arguments: argparse.Namespace, chapters: list[dict[str, str]]) -> None:
    """For a model that gives no token a probability from those before it: what it reads."""
    from pellucid.cli.output.chapter import contents
    from pellucid.explain import trace
    from pellucid.explain.chapter_json import plain_chapter
    from pellucid.explain.inspection import Request, inspect

    traced = trace(run, arguments.sentence, target=arguments.target, force=arguments.force)
    if arguments.json:
        request = Request(trace=traced, chapters=("tokens",), place=_place(arguments))
        print_json({"tokens": plain_chapter(inspect(request).chapter()), "chapters": chapters})
        return
    _print_one(traced, "tokens", arguments)
    print("\nchapters, for --chapter (or --all):")
    for line in contents():
        print(line)


def _table(reading: Any) -> Iterator[str]:
    width = min(18, max(len(repr(token.token)) for token in reading.tokens))
    yield f"{'':>4} {'token':<{width}} {'p':>7} {'bits':>6}  expected"
    for token in reading.tokens:
        yield (
            f"{token.position:>4} {_cut(repr(token.token), width):<{width}} "
            f"{token.probability:>7.4f} {token.surprisal_bits:>6.2f}  {_listed(token.expected)}"
        )
    n = len(reading.tokens)
    yield f"{'':>4} {'then':<{width}} {'':>7} {'':>6}  {_listed(reading.follows)}"
    yield (
        f"\n{reading.bits:.2f} bits for {n} tokens, {reading.bits / n:.2f} each "
        f"(guessing: {reading.guessing_bits:.2f})"
    )


def _listed(expected: tuple[tuple[str, float], ...]) -> str:
    return "  ".join(f"{_cut(repr(token), 12)} {p:.2f}" for token, p in expected)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
