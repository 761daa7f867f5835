"""`pellucid serve`, and the page of `pellucid explain`: on this machine, or as one file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pellucid.cli.output import add_json, print_json
from pellucid.errors import ConfigError

#: What a page opens with where no sentence was given.
_SENTENCE = "The cat sat on the mat"


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "serve",
        help="open runs on a page that walks a sentence through them",
        description="A page on this machine: write a sentence, and see every number of its way "
        "through the model, with its receipt. Nothing leaves the machine.",
    )
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        help="a run, one of its checkpoints, or a Hugging Face directory",
    )
    parser.add_argument("--sentence", metavar="TEXT", default=_SENTENCE, help="what to begin with")
    _add_address(parser)
    add_json(parser)
    parser.set_defaults(call=call, when_stopped="the page is closed")


def add_page_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `pellucid explain` that make a page."""
    parser.add_argument("--serve", action="store_true", help="show it on a page, on this machine")
    _add_address(parser)
    parser.add_argument("--html", metavar="FILE", help="write it as one file that fetches nothing")
    parser.add_argument(
        "--full", action="store_true", help="with --html: every place, not a path through them"
    )


def _add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, metavar="N", help="default: 7357, or a free one")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="H", help="another than this machine: asks a token"
    )


def call(arguments: argparse.Namespace) -> None:
    """Serve until interrupted."""
    serve_page(arguments, arguments.runs, arguments.sentence)


def serve_page(arguments: argparse.Namespace, paths: list[str], sentence: str) -> None:
    """The page of some runs, until Ctrl-C."""
    from pellucid.web import open_session
    from pellucid.web.serving import serve

    session = open_session(paths, sentence=sentence)
    # what cannot be opened is said here, and not first in the browser
    session.shelf.load(session.shelf.keys[0])

    def ready(address: str) -> None:
        if arguments.json:
            print_json({"address": address})
        else:
            print(f"{address}\nOpen it in a browser. Ctrl-C ends it.")
        sys.stdout.flush()

    serve(
        session, host=arguments.host, port=arguments.port, ready=ready, fragment=_chosen(arguments)
    )


def _chosen(arguments: argparse.Namespace) -> str:
    """The chapter and place that flags name, as the page's address has them."""
    said = {"chapter": "chapter", "l": "layer", "h": "head", "t": "token"}
    given = {key: getattr(arguments, name, None) for key, name in said.items()}
    parts = [f"{key}={quote(str(value))}" for key, value in given.items() if value is not None]
    return "#" + "&".join(parts) if parts else ""


def write_html(arguments: argparse.Namespace) -> None:
    """The page as one file; its size is said first."""
    from pellucid.display.numbers import size
    from pellucid.explain.chapter import Place
    from pellucid.web import Reading, one_page, open_session, write_page

    if arguments.serve:
        raise ConfigError("--serve shows a page and --html writes one: choose one of them")
    given = {name: getattr(arguments, name, None) for name in ("layer", "head", "token")}
    place = Place(**{name: value for name, value in given.items() if value is not None})
    session = open_session([arguments.run], sentence=arguments.sentence)
    reading = Reading(session.shelf.keys[0], "", arguments.sentence)
    page = one_page(session, reading, place=place, full=arguments.full)
    if arguments.json:
        print_json({"file": arguments.html, "bytes": page.n_bytes, "answers": page.answers})
    else:
        print(f"{arguments.html}: {size(page.n_bytes)}, {page.answers:,} views", flush=True)
    write_page(page, Path(arguments.html))
