"""`pellucid serve`, and the page of `pellucid explain`: a page and an API, or one file."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pellucid.cli.flags.against import compare_is_meant
from pellucid.cli.flags.numbers import PORT, QUEUE, ROWS
from pellucid.cli.flags.shared import add_weights, finish_parser
from pellucid.cli.output.page_file import write_html
from pellucid.cli.output.printing import print_json
from pellucid.errors import ConfigError

if TYPE_CHECKING:
    from pellucid.api import Limits, ServedModels
    from pellucid.explain.forward_pass import HeadScale
    from pellucid.runs import Run
    from pellucid.web import Session

#: The sentence of a page without --sentence.
_SENTENCE = "The cat sat on the mat"


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "serve",
        help="serve runs: a page that shows every number, and an API",
        description="A page and an OpenAI-compatible API on one port of this machine. On the page "
        "you see every number of a sentence's way through the model, and you can talk to the "
        "model and open each token that it wrote. Nothing leaves the machine.",
    )
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        help="a run, one of its checkpoints, a folder of runs, or a Hugging Face directory",
    )
    parser.add_argument("--sentence", metavar="TEXT", default=_SENTENCE, help="the first sentence")
    _add_address(parser)
    parser.add_argument(
        "--token",
        metavar="TEXT",
        help="secret that every client has to send (default: the variable PELLUCID_TOKEN; with "
        "--host, a new one)",
    )
    parser.add_argument(
        "--rows", type=ROWS, metavar="N", help="texts of a model written at a time (default: 8)"
    )
    parser.add_argument(
        "--queue",
        type=QUEUE,
        metavar="N",
        help="texts that may wait; a request for more gets status 429 (default: 64)",
    )
    parser.add_argument(
        "--keep", metavar="DIR", default="runs/learn", help="folder of your progress (runs/learn)"
    )
    add_weights(parser)
    finish_parser(parser, call, device=True, force=True, when_stopped="and closed the page")


def add_page_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `pellucid explain` that make a page."""
    parser.add_argument("--serve", action="store_true", help="show it on a page, on this machine")
    _add_address(parser)
    parser.add_argument("--html", metavar="FILE", help="write it as one file that fetches nothing")
    parser.add_argument(
        "--full", action="store_true", help="with --html: every place, not one path through them"
    )


def _add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=PORT, metavar="N", help="default: 7357, or a free one")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="H",
        help="another address than this machine; the page then asks for a token",
    )


def call(arguments: argparse.Namespace) -> None:
    """Serve until interrupted."""
    from pellucid import runs
    from pellucid.api import Limits

    limits = {"rows": arguments.rows, "waiting": arguments.queue}
    engine_limits = Limits(**{name: value for name, value in limits.items() if value is not None})
    loading = {name: getattr(arguments, name) for name in ("device", "weights", "calibrate")}
    serve_page(
        arguments,
        arguments.runs,
        arguments.sentence,
        limits=engine_limits,
        token=arguments.token,
        keep=Path(arguments.keep),
        open_run=partial(runs.load, **loading),
    )


def serve_page(
    arguments: argparse.Namespace,
    paths: list[str],
    sentence: str,
    *,
    fragment: str = "",
    limits: Limits | None = None,
    token: str | None = None,
    open_run: Callable[[Path], Run] | None = None,
    keep: Path | None = None,
) -> None:
    """Serve a page of runs, and the API, until Ctrl-C.

    Args:
        arguments: the host and port of the command.
        paths: the runs.
        sentence: the first sentence.
        fragment: the first selection, as in the page's address.
        limits: how many texts are written at a time, and how many wait.
        token: the secret of every client; by default PELLUCID_TOKEN.
        open_run: opens a run; by default on the processor, with its weights as they are.
        keep: the folder of the progress in the course; by default that of `pellucid learn`.
    """
    from pellucid import runs
    from pellucid.api import api_routes, refusal_of
    from pellucid.course.lessons.progress import FOLDER
    from pellucid.hub import local_model
    from pellucid.web import ProgramRoutes, open_session
    from pellucid.web.course import Course
    from pellucid.web.serving import serve

    token = _checked(os.environ.get("PELLUCID_TOKEN") if token is None else token)
    paths, folders = expand_folders(paths)
    session = open_session(
        [local_model(path) for path in paths],
        sentence=sentence,
        open_run=open_run or runs.load,
        folders=folders,
    )
    session.course = Course(keep or FOLDER)
    # load it now: a refusal belongs here, not in the browser
    session.shelf.load(session.shelf.keys[0]).require_tokenizer()
    models = _models(session, paths, limits)

    def ready(address: str) -> None:
        api = address.partition("?")[0].partition("#")[0] + "v1"
        if arguments.json:
            print_json({"address": address, "api": api, "models": list(models.by_name)})
        else:
            print(f"{address}\nOpen it in a browser. Ctrl-C ends it.")
            print(f"API for programs: {api} (models: {', '.join(models.by_name)})")
        sys.stdout.flush()

    try:
        serve(
            session,
            host=arguments.host,
            port=arguments.port,
            ready=ready,
            # several runs begin with their list, their curves over each other
            fragment=fragment or ("#list=1" if folders else ""),
            token=token,
            programs=ProgramRoutes(routes=api_routes(models), refuse=refusal_of),
        )
    finally:
        models.close()


def expand_folders(paths: list[str]) -> tuple[list[str], list[Path]]:
    """The runs to open, where a folder of runs gives its runs, and these folders.

    Raises:
        ConfigError: no run of a folder can be opened.
    """
    from pellucid.lab.run_table import is_folder_of_runs, openable_runs

    folders = [Path(path) for path in paths if is_folder_of_runs(Path(path))]
    opened = {str(folder): [str(run) for run in openable_runs(folder)] for folder in folders}
    for folder in folders:
        if not opened[str(folder)]:
            raise ConfigError(f"{folder} has no run with a checkpoint: train one first")
    return [run for path in paths for run in opened.get(str(Path(path)), [path])], folders


def _checked(token: str | None) -> str | None:
    """A token that clients can send.

    Raises:
        ConfigError: they cannot.
    """
    if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
        raise ConfigError(
            "the token must be printable ASCII and not empty: clients send it in a header"
        )
    return token


def _models(session: Session, paths: list[str], limits: Limits | None) -> ServedModels:
    """The runs of a page as the API's models, each under its folder's name or its name on a hub."""
    from pellucid.api import ModelSource, ServedModels
    from pellucid.hub import hub_name
    from pellucid.web import Talk

    shelf = session.shelf
    names: dict[str, str] = {}
    for line, path in zip(shelf.describe(), paths, strict=True):
        own_name: str = line["name"] if hub_name(path) is None else path
        name, count = own_name, 2
        while name in names.values():
            name, count = f"{own_name}-{count}", count + 1
        names[line["key"]] = name
    sources = [
        ModelSource(name=name, folder=shelf.folder(key), load=partial(shelf.load, key))
        for key, name in names.items()
    ]
    models = ServedModels(sources, limits=limits)
    session.talks = {
        key: Talk(model=name, is_chat=models.get(name).can_chat) for key, name in names.items()
    }
    return models


def page_was_asked_for(arguments: argparse.Namespace) -> bool:
    """Whether `pellucid explain` is to show or write a page.

    Raises:
        ConfigError: two flags that cannot be together.
    """
    if arguments.serve and arguments.html is not None:
        raise ConfigError("--serve shows a page and --html writes one: choose one of them")
    if arguments.html is not None and arguments.ablate:
        raise ConfigError(
            "a file holds the model as it was trained: leave --ablate out, or --serve"
        )
    return arguments.serve or arguments.html is not None


def show_page(arguments: argparse.Namespace, scales: Mapping[str, HeadScale]) -> None:
    """The page of one sentence: served, or written as one file."""
    if arguments.html is not None:
        write_html(arguments, _runs(arguments))
        return
    fragment = _fragment(arguments, scales)
    serve_page(arguments, _runs(arguments), arguments.sentence, fragment=fragment)


def _runs(arguments: argparse.Namespace) -> list[str]:
    """The run, and the one to compare it with if that is another."""
    return [arguments.run, *([] if arguments.against is None else [arguments.against])]


#: The flags of parts of the page's address.
_FLAGS = {
    "chapter": "chapter",
    "stack": "stack",
    "t": "token",
    "o": "other",
    "l": "layer",
    "h": "head",
    "f": "feature",
    "w": "weight",
    "r": "row",
    "c": "column",
}


def _fragment(arguments: argparse.Namespace, scales: Mapping[str, HeadScale]) -> str:
    """The chapter and place of the flags, as the page's address has them."""
    parameters = {key: getattr(arguments, name) for key, name in _FLAGS.items()}
    parameters["x"] = " ".join(f"{head}={_format_scale(scale)}" for head, scale in scales.items())
    parameters["e"] = int(arguments.cross)
    parameters["vs"] = _versus(arguments)
    # the selected token of the text that the encoder reads
    parameters["i"] = arguments.other if arguments.cross else arguments.token
    if arguments.stack == "decoder" and not arguments.cross:
        del parameters["i"]
    parts = [f"{key}={quote(str(value))}" for key, value in parameters.items() if value]
    return "#" + "&".join(parts)


def _format_scale(scale: HeadScale) -> str:
    return scale if isinstance(scale, str) else f"{scale:g}"


def _versus(arguments: argparse.Namespace) -> str:
    """The run and text to compare with, as the page's address has them."""
    if not compare_is_meant(arguments):
        return ""
    text = arguments.against_text
    return f"run{len(_runs(arguments)) - 1}@" + ("" if text is None else f" {text}")
