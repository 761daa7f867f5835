"""`pellucid explain`: what a run makes of a sentence, token by token, and chapter by chapter."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.against import add_comparing_flags, compare_is_meant, other_trace
from pellucid.cli.flags.example import (
    add_example_flags,
    choose_chapter,
    refuse_example_on_server,
)
from pellucid.cli.flags.place import add_place_flags, place_of
from pellucid.cli.flags.shared import add_run, finish_parser
from pellucid.cli.flags.token_ids import add_ids, parse_ids, trace_request
from pellucid.cli.flags.why import add_why_flags, why_is_asked
from pellucid.cli.output.printing import cut, print_json, print_lines, print_result
from pellucid.cli.verbs.serving.serve import add_page_flags, page_was_asked_for, show_page
from pellucid.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from pellucid.explain import Trace
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
    parser.add_argument("sentence", metavar="SENTENCE", nargs="?", help="none with --example")
    add_ids(parser, 'SENTENCE is token ids, such as "5 17 9": for a model without a tokenizer')
    parser.add_argument("--chapter", metavar="NAME", help="one chapter; without it they are listed")
    parser.add_argument("--all", action="store_true", help="all chapters, one after another")
    parser.add_argument(
        "--audit",
        action="store_true",
        help="recompute every number of the sentence from its operands, gradients included, and "
        "count how many agree; exit code 4 if one does not",
    )
    parser.add_argument(
        "--audit-update",
        action="store_true",
        help="the same, with what the next update makes of every parameter, its moments included",
    )
    add_place_flags(parser)
    parser.add_argument(
        "--target",
        metavar="TEXT",
        help="what the run should make of SENTENCE, for the loss of its own objective: the text "
        "to write, the whole text behind masks, the class, or the (chosen) answer",
    )
    add_example_flags(parser)
    parser.add_argument(
        "--ablate",
        action="append",
        default=[],
        metavar="HEAD",
        help="take a head away, such as L2.H1, scale it (L2.H1=0.5), or put its mean over the "
        "sentence in its place (L2.H1=mean); can be given again",
    )
    parser.add_argument(
        "--edit",
        action="append",
        default=[],
        metavar="EDIT",
        help="change something, compute the rest again, and show the next words before and after. "
        "Write 'tokens[3]= dog', L2.H1.out[7]*=2, L2.H1.weights[7,1]=0, "
        "'L2.feed_forward.units[:,30]=0', L2.feed_forward.experts.3=0, "
        "'L2.residual[-1]+=4*word( cat)', or a weight by its name; can be given again",
    )
    add_why_flags(parser)
    add_comparing_flags(parser)
    add_page_flags(parser)
    finish_parser(parser, call, force=True)


def call(arguments: argparse.Namespace) -> ExitCode:
    """Print a table of the tokens and the list of chapters, or one chapter, or all; or a page.

    An audit fails if a number differs from what its operands give.
    """
    if arguments.audit or arguments.audit_update:
        return _print_audit(arguments)
    _print_chapters(arguments)
    return ExitCode.SUCCESS


def _print_audit(arguments: argparse.Namespace) -> ExitCode:
    from pellucid import runs
    from pellucid.cli.output.sentence import audit_facts, audit_lines
    from pellucid.explain.addresses.audit import audit

    if arguments.all or arguments.chapter is not None or page_was_asked_for(arguments):
        raise ConfigError("--audit shows no chapter and no page: leave the other out")
    if compare_is_meant(arguments):
        raise ConfigError("--audit is of one sentence in one run: leave --against out")
    scales = dict(map(_scale, arguments.ablate))
    run = runs.load(arguments.run)
    traced = trace_request(arguments, run, arguments.sentence, target=arguments.target)
    if scales or arguments.edit:
        traced = traced.with_heads(scales).edit(*arguments.edit)
    result = audit(traced, update=arguments.audit_update)
    print_result(arguments, audit_facts(result), audit_lines(result))
    return ExitCode.SUCCESS if result.agrees else ExitCode.FINDINGS


def _print_chapters(arguments: argparse.Namespace) -> None:
    from pellucid import runs
    from pellucid.explain.chapter_types import Place
    from pellucid.explain.chapters import find_chapter

    if arguments.all and arguments.chapter is not None:
        raise ConfigError("--all and --chapter were both given: leave one of them out")
    if arguments.chapter is not None:
        find_chapter(arguments.chapter)  # for its refusal, before anything is loaded
    is_question = why_is_asked(arguments)
    scales = dict(map(_scale, arguments.ablate))
    if compare_is_meant(arguments) and not arguments.all:
        arguments.chapter = "compare"
    if (arguments.sentence is None) == (arguments.example is None) and not arguments.name_heads:
        raise ConfigError("give either SENTENCE or --example FILE: the text to explain")
    choose_chapter(arguments, is_question=is_question)
    if page_was_asked_for(arguments):
        if arguments.serve:
            refuse_example_on_server(arguments)
        if arguments.edit:
            raise ConfigError("--edit is for the terminal: leave it out for a page")
        if arguments.ids:
            raise ConfigError("--ids is for the terminal: a page shows text; leave it out there")
        show_page(arguments, scales)
        return
    changes = bool(scales or arguments.edit)
    is_table = arguments.chapter is None and not arguments.all and not changes and not is_question
    if is_table and not arguments.name_heads and place_of(arguments) != Place():
        raise ConfigError(
            "the table of the tokens is of no one place: add --chapter NAME or --all, or leave "
            "--layer, --head, --token and the like out"
        )
    run = runs.load(arguments.run)
    if arguments.name_heads:
        from pellucid.cli.output.head_names import print_head_names

        print_head_names(run, arguments)
        return
    if is_table:
        _print_reading(run, arguments)
        return
    traced = trace_request(arguments, run, arguments.sentence, target=arguments.target)
    if changes:
        original, traced = traced, traced.with_heads(scales).edit(*arguments.edit)
        if arguments.chapter is None and not arguments.all and not is_question:
            _print_change(original, traced, arguments)
            return
    if is_question:
        from pellucid.cli.output.logit_difference import print_why

        print_why(traced, arguments)
        return
    versus = other_trace(arguments, run)
    if arguments.all:
        _print_all(traced, arguments, versus)
    else:
        chapter_name: str = arguments.chapter or ""
        _print_one(traced, chapter_name, arguments, versus)


def _print_all(trace: Trace, arguments: argparse.Namespace, versus: Trace | None) -> None:
    """Every chapter, each as soon as it is read; one that the model does not have says why."""
    from pellucid.explain.chapter_json import plain_chapter
    from pellucid.explain.inspection import Refusal, Request, inspect, list_chapters

    place, payload = place_of(arguments), list[dict[str, Any]]()
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
            print_lines(_chapter_lines(inspection))
    if arguments.json:
        print_json(payload)


def _chapter_lines(inspection: Inspection) -> Iterator[str]:
    from pellucid.cli.output.chapter import lines_of

    return lines_of(inspection.chapter(), inspection.trace, inspection.selection)


def _print_one(
    trace: Trace, name: str, arguments: argparse.Namespace, versus: Trace | None = None
) -> None:
    """One chapter, on the terminal or as JSON."""
    from pellucid.explain.chapter_json import plain_chapter
    from pellucid.explain.inspection import Request, inspect

    request = Request(trace=trace, chapters=(name,), place=place_of(arguments), versus=versus)
    inspection = inspect(request)
    print_result(arguments, plain_chapter(inspection.chapter()), _chapter_lines(inspection))


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
    """The change of the predictions at the selected token."""
    from pellucid.explain.ablation import change
    from pellucid.explain.losses.names import piece
    from pellucid.explain.selection import select_place

    token = select_place(original, place_of(arguments)).token
    difference = change(original, ablated, token)
    word = original.pieces(original.side)[token]
    lines = [
        f"{_describe_change(arguments)}, after token {word!r} ({token}):\n",
        f"  {'token':<18} {'p before':>9} {'p after':>9} {'change':>9}",
    ]
    for token_id, p_before, p_after in zip(
        difference.words, difference.before, difference.after, strict=True
    ):
        name = cut(piece(original, token_id), 18)
        lines.append(f"  {name:<18} {p_before:>9.4f} {p_after:>9.4f} {p_after - p_before:>+9.4f}")
    loss_text = "" if difference.loss is None else f"; the loss changed by {difference.loss:+.6f}"
    lines.append(f"\nKL(before, after) {difference.kl:.6f} nats here{loss_text}")
    print_result(arguments, asdict(difference), lines)


def _describe_change(arguments: argparse.Namespace) -> str:
    texts = [f"without {', '.join(arguments.ablate)}"] if arguments.ablate else []
    texts += [f"with {', '.join(arguments.edit)}"] if arguments.edit else []
    return ", ".join(texts)


def _print_reading(run: Run, arguments: argparse.Namespace) -> None:
    """A line per token, the whole and what would follow; then what else can be seen."""
    from pellucid import explain
    from pellucid.cli.output.sentence import reading_lines
    from pellucid.display.terminal_text import folded, visible
    from pellucid.explain.chapters import CHAPTERS
    from pellucid.saved_runs.requirements import kind_of

    chapters = [{"id": entry.id, "about": entry.summary} for entry in CHAPTERS]
    if kind_of(run.model) != "decoder" or run.model.output_head.no_token_logits is not None:
        _print_tokens(run, arguments, chapters)
        return
    sentence: str = arguments.sentence
    reading = explain.read_sentence(
        run, parse_ids(sentence, "SENTENCE") if arguments.ids else sentence
    )
    notes = ("\n" + "\n".join(folded(visible(note), 80)) for note in reading.notes)
    facts = asdict(reading) | {"bits": reading.bits, "chapters": chapters}
    print_result(arguments, facts, [*reading_lines(reading), *notes, *_contents()])


def _print_tokens(run: Run, arguments: argparse.Namespace, chapters: list[dict[str, str]]) -> None:
    """The tokens alone, for a model that gives no token a probability from those before it."""
    from pellucid.explain.chapter_json import plain_chapter
    from pellucid.explain.inspection import Request, inspect

    traced = trace_request(arguments, run, arguments.sentence, target=arguments.target)
    inspection = inspect(Request(trace=traced, chapters=("tokens",), place=place_of(arguments)))
    facts = {"tokens": plain_chapter(inspection.chapter()), "chapters": chapters}
    print_result(arguments, facts, [*_chapter_lines(inspection), *_contents()])


def _contents() -> list[str]:
    """The chapters to choose from."""
    from pellucid.cli.output.chapter import contents

    return ["\nchapters, for --chapter (or --all):", *contents()]
