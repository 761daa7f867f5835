"""The page as one file: its modules, its style and the answers it needs, opened without a server.

The linker is small because the modules keep to a few forms: named imports of each other, and
`export` before a function or a constant. Each becomes a function that is called once.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from pellucid.disk import check_output, sealed, write_output
from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Place
from pellucid.json_text import json_text
from pellucid.web.assets import files
from pellucid.web.json_payload import Plain
from pellucid.web.requests import PageRequest, Reading
from pellucid.web.session import Session

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)\.js";\n', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.M)
#: So many heads in all are taken whole where not everything was asked for.
_MOST_HEADS = 48
#: The parts of a place, in the order in which a key has those that matter.
_AXES = tuple(field.name for field in fields(Place))

Watch = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class OnePage:
    """The file before it is written, and what it holds."""

    html: str
    answers: int
    full: bool

    @property
    def n_bytes(self) -> int:
        """How large the file will be."""
        return len(sealed(Path("page.html"), self.html))


def one_page(
    session: Session,
    reading: Reading,
    *,
    place: Place | None = None,
    versus: Reading | None = None,
    full: bool = False,
    watch: Watch = lambda done, total: None,
) -> OnePage:
    """The page of one sentence. `full` takes every place, otherwise a path through them: every
    layer and head at the chosen token, every token and every key at the chosen head. `versus` is
    what it is compared with.

    Raises:
        PellucidError: the sentence cannot be read.
    """
    held = _held(partial(_ask_session, session, reading, versus), place or Place(), full, watch)
    _keep_runs(held, session, reading, versus, place or Place())
    return OnePage(_html(held), len(held["bodies"]), full)


def check_name(file: Path) -> Path:
    """The name of a file that can be written.

    Raises:
        PellucidError: it does not end in .html, there is no such folder, or there is a file that
            pellucid did not write.
    """
    if file.suffix.lower() not in (".html", ".htm"):
        raise PellucidError(
            f"what is written is HTML, and {file} does not end in .html: name it so"
        )
    if not file.parent.is_dir():
        raise PellucidError(f"there is no folder {file.parent}: make it, or choose another")
    check_output(file)
    return file


def write_page(page: OnePage, file: Path) -> None:
    """Write it.

    Raises:
        PellucidError: as `check_name`.
    """
    write_output(check_name(file), page.html)


def linked(modules: Mapping[str, str], start: str) -> str:
    """One script of several modules, each after those that it imports."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        source = modules[name]
        for _, imported in _IMPORT.findall(source):
            add(imported)
        names = ", ".join(_EXPORT.findall(source))
        body = _EXPORT.sub("", _IMPORT.sub(_format_import, source))
        done[name] = (
            f"const module_{_safe(name)} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();\n"
        )

    add(start)
    return "".join(done.values())


def _format_import(match: re.Match[str]) -> str:
    return f"const {{{match[1].replace(' as ', ': ')}}} = module_{_safe(match[2])};\n"


def _safe(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _html(held: Plain) -> str:
    files_by_name = files()
    modules = {
        name.removesuffix(".js"): file.content.decode()
        for name, file in files_by_name.items()
        if name.endswith(".js")
    }
    script, style = linked(modules, "app"), files_by_name["app.css"].content.decode()
    json_bytes = json_text(held, ensure_ascii=False).encode()
    payload = base64.b64encode(gzip.compress(json_bytes, 9, mtime=0)).decode()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    page = files_by_name["index.html"].content.decode()
    page = re.sub(r'<link rel="icon"[^>]*>\n', "", page)
    page = page.replace(
        '<meta name="referrer"',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<meta name="referrer"',
    )
    page = page.replace('<link rel="stylesheet" href="./app.css">', f"<style>{style}</style>")
    page = page.replace('<script type="module" src="./app.js"></script>\n', "")
    body = (
        f'<script type="application/octet-stream" id="payload">{payload}</script>\n'
        f'<script type="module">{script}</script>\n</body>'
    )
    return page.replace("</body>", body)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _ask_session(
    session: Session, reading: Reading, versus: Reading | None, kind: str, **parameters: Any
) -> Plain:
    return session.get(PageRequest(kind=kind, reading=reading, versus=versus, **parameters))


def _held(ask: Callable[..., Plain], chosen: Place, full: bool, watch: Watch) -> dict[str, Any]:
    """The answers by their keys; equal ones once, and of chapters equal pictures once."""
    overview = ask("overview")
    bodies, pictures, answers = _Once(), _Once(), dict[str, int]()

    def keep(key: str, body: Any) -> None:
        answers[key] = bodies.place(body)

    keep("overview", overview)
    if overview["backward"]["there"]:
        keep("backward", ask("backward"))
    if not (chosen.stack == "encoder" and overview["spare"]):
        chosen = replace(chosen, token=chosen.token % len(overview["ids"]))
    for token in range(len(overview["ids"])):
        keep(f"prediction {token}", ask("prediction", place=Place(token=token)))
    for stack in overview["stacks"]:
        for layer, facts in enumerate(stack["layers"]):
            if facts["heads"] and facts["thumbnails"] is None:
                place = Place(layer=layer, stack=stack["name"], cross=stack["cross"])
                axes_of = f"{stack['name']} {_plain(stack['cross'])} {layer}"
                keep(f"thumbnails {axes_of}", ask("thumbnails", place=place))
    places = list(dict.fromkeys(_places(overview, chosen, full)))
    axes: dict[str, list[str]] = {}
    total = len(overview["contents"]) * len(places)
    for number, heading in enumerate(overview["contents"]):
        chapter_bodies: dict[Place, Any] = {}
        for count, place in enumerate(places[:1] if heading["once"] else places):
            watch(number * len(places) + count, total)
            try:
                chapter = ask("chapter", chapter=heading["id"], place=place)
            except PellucidError as error:  # a chapter that this place has not: said by the page
                chapter_bodies[place] = {"error": str(error)}
            else:
                held = [pictures.place(picture) for picture in chapter["pictures"]]
                chapter_bodies[place] = chapter | {"pictures": held}
        telling = {*_telling(chapter_bodies), *heading["axes"]}
        axes[heading["id"]] = [axis for axis in _AXES if axis in telling]
        for place, body in chapter_bodies.items():
            keep(_key(heading["id"], place, axes[heading["id"]]), body)
    return {"answers": answers, "bodies": bodies.all, "pictures": pictures.all, "axes": axes}


def _keep_runs(
    held: dict[str, Any],
    session: Session,
    reading: Reading,
    versus: Reading | None,
    chosen: Place,
) -> None:
    """Whose numbers they are, what they are compared with, and what is chosen at first."""
    answer = session.get(PageRequest(kind="runs"))
    listed: list[Plain] = []
    for listed_reading in (reading, versus):
        if listed_reading is not None:
            (run,) = (run for run in answer["runs"] if run["key"] == listed_reading.run)
            listed.append(
                {**run, "checkpoints": [], "chosen": listed_reading.checkpoint or run["chosen"]}
            )
    versus_text = "" if versus is None else f"{versus.run}@{versus.checkpoint} {versus.sentence}"
    first = {"sentence": reading.sentence, "place": asdict(chosen), "versus": versus_text}
    held["answers"]["runs"] = len(held["bodies"])
    held["bodies"].append({**answer, "runs": listed, **first})


class _Once:
    """Plain values in a row, equal ones once."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._known: dict[str, int] = {}

    def place(self, value: Any) -> int:
        """Where a value stands in the row."""
        text = json_text(value, sort_keys=True)
        if text not in self._known:
            self._known[text] = len(self.all)
            self.all.append(value)
        return self._known[text]


def _places(overview: Plain, chosen: Place, full: bool) -> Iterator[Place]:
    """Where chapters are told: `chosen`, and what can be reached from it along each axis."""
    names = [(stack["name"], stack["cross"]) for stack in overview["stacks"]]
    whole = (
        full or sum(at["heads"] for s in overview["stacks"] for at in s["layers"]) <= _MOST_HEADS
    )
    stack_key = (chosen.stack, chosen.cross)
    chosen = chosen if stack_key in names else replace(chosen, stack=names[0][0], cross=names[0][1])
    yield chosen
    yield replace(chosen, feature=chosen.feature + 1)
    n_source = len(overview["spare"])
    for stack in overview["stacks"]:
        name, cross = stack["name"], stack["cross"]
        encodes = n_source > 0 and name == "encoder"
        tokens = range(n_source if encodes else len(overview["ids"]))
        keys = range(n_source if encodes or cross else len(overview["ids"]))
        at = replace(chosen, stack=name, cross=cross)
        if (name, cross) != (chosen.stack, chosen.cross):
            # another text has other places: the page begins at its first token
            at = replace(at, token=0 if encodes else -1, other=0)
        at = replace(at, token=at.token % len(tokens), other=at.other % len(keys))
        yield at
        for layer, facts in enumerate(stack["layers"]):
            heads = range(max(1, facts["heads"]) if whole or layer == chosen.layer else 1)
            for head in heads:
                yield replace(at, layer=layer, head=head)
                for token in tokens if full else ():
                    yield replace(at, layer=layer, head=head, token=token)
        for token in tokens:
            yield replace(at, token=token)
        for key in keys:
            yield replace(at, other=key)


def _telling(bodies: Mapping[Place, Any]) -> list[str]:
    """The axes along which a chapter changes: what does not matter is no part of its key."""
    telling: list[str] = []
    for axis in _AXES:
        groups: dict[Any, set[str]] = {}
        for place, body in bodies.items():
            other_axes = tuple(getattr(place, name) for name in _AXES if name != axis)
            groups.setdefault(other_axes, set()).add(json_text(body, sort_keys=True))
        if any(len(variants) > 1 for variants in groups.values()):
            telling.append(axis)
    return telling


def _key(chapter: str, place: Place, axes: list[str]) -> str:
    return " ".join([chapter, *(f"{axis}={_plain(getattr(place, axis))}" for axis in axes)])


def _plain(value: object) -> str:
    """As JavaScript spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
