"""The page as one file that needs no server: its modules, its style, and all of its answers.

The linker is small because the modules use few forms: named imports of each other, and `export`
before a function or a constant. Each module becomes a function that is called once.
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
#: Without `full`, a model with more heads gets only the first head of each layer.
_MOST_HEADS = 48
#: The axes of a place, in the order of keys.
_AXES = tuple(field.name for field in fields(Place))

Watch = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class OnePage:
    """The file before it is written, and its number of answers."""

    html: str
    answers: int
    full: bool

    @property
    def n_bytes(self) -> int:
        """The size of the file."""
        return len(sealed(Path("page.html"), self.html))


def one_page(
    session: Session,
    reading: Reading,
    *,
    place: Place | None = None,
    versus: Reading | None = None,
    full: bool = False,
    watch: Watch = lambda n_done, total: None,
) -> OnePage:
    """The page of one sentence.

    Args:
        session: Answers the requests.
        reading: The sentence and its run.
        place: The place that the page shows first.
        versus: A reading to compare with.
        full: Whether to hold every place. Otherwise the file holds every layer and head at the
            first place's token, and every token and key at its head.
        watch: Called with the finished answers and their total.

    Raises:
        PellucidError: The sentence cannot be read.
    """
    content = _collect_answers(
        partial(_ask_session, session, reading, versus), place or Place(), full, watch
    )
    _add_runs(content, session, reading, versus, place or Place())
    return OnePage(_html(content), len(content["bodies"]), full)


def check_name(file: Path) -> Path:
    """Check the name of a file before work begins.

    Raises:
        PellucidError: It does not end in .html, there is no such folder, or there is a file that
            pellucid did not write.
    """
    if file.suffix.lower() not in (".html", ".htm"):
        raise PellucidError(f"{file} does not end in .html: choose a name that does")
    if not file.parent.is_dir():
        raise PellucidError(f"there is no folder {file.parent}: make it, or choose another")
    check_output(file)
    return file


def write_page(page: OnePage, file: Path) -> None:
    """Write the page.

    Raises:
        PellucidError: As for `check_name`.
    """
    write_output(check_name(file), page.html)


def linked(modules: Mapping[str, str], start: str) -> str:
    """One script of several modules, each after its imports."""
    scripts: dict[str, str] = {}

    def add(name: str) -> None:
        if name in scripts:
            return
        source = modules[name]
        for _, imported in _IMPORT.findall(source):
            add(imported)
        names = ", ".join(_EXPORT.findall(source))
        body = _EXPORT.sub("", _IMPORT.sub(_format_import, source))
        scripts[name] = (
            f"const module_{_safe(name)} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();\n"
        )

    add(start)
    return "".join(scripts.values())


def _format_import(match: re.Match[str]) -> str:
    return f"const {{{match[1].replace(' as ', ': ')}}} = module_{_safe(match[2])};\n"


def _safe(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _html(content: Plain) -> str:
    files_by_name = files()
    modules = {
        name.removesuffix(".js"): file.content.decode()
        for name, file in files_by_name.items()
        if name.endswith(".js")
    }
    script, style = linked(modules, "app"), files_by_name["app.css"].content.decode()
    json_bytes = json_text(content, ensure_ascii=False).encode()
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


def _collect_answers(
    ask: Callable[..., Plain], first: Place, full: bool, watch: Watch
) -> dict[str, Any]:
    """The answers by their keys; equal answers and equal pictures are stored once."""
    overview = ask("overview")
    bodies, pictures, answers = _Deduplicated(), _Deduplicated(), dict[str, int]()

    def keep(key: str, body: Any) -> None:
        answers[key] = bodies.place(body)

    keep("overview", overview)
    if overview["backward"]["there"]:
        keep("backward", ask("backward"))
    if not (first.stack == "encoder" and overview["spare"]):
        first = replace(first, token=first.token % len(overview["ids"]))
    for token in range(len(overview["ids"])):
        keep(f"prediction {token}", ask("prediction", place=Place(token=token)))
    for stack in overview["stacks"]:
        for layer, facts in enumerate(stack["layers"]):
            if facts["heads"] and facts["thumbnails"] is None:
                place = Place(layer=layer, stack=stack["name"], cross=stack["cross"])
                axes_of = f"{stack['name']} {_plain(stack['cross'])} {layer}"
                keep(f"thumbnails {axes_of}", ask("thumbnails", place=place))
    places = list(dict.fromkeys(_places(overview, first, full)))
    axes: dict[str, list[str]] = {}
    total = len(overview["contents"]) * len(places)
    for number, heading in enumerate(overview["contents"]):
        chapter_bodies: dict[Place, Any] = {}
        for count, place in enumerate(places[:1] if heading["once"] else places):
            watch(number * len(places) + count, total)
            try:
                chapter = ask("chapter", chapter=heading["id"], place=place)
            except PellucidError as error:  # the page shows why this place has no such chapter
                chapter_bodies[place] = {"error": str(error)}
            else:
                indices = [pictures.place(picture) for picture in chapter["pictures"]]
                chapter_bodies[place] = chapter | {"pictures": indices}
        relevant = {*_relevant_axes(chapter_bodies), *heading["axes"]}
        axes[heading["id"]] = [axis for axis in _AXES if axis in relevant]
        for place, body in chapter_bodies.items():
            keep(_key(heading["id"], place, axes[heading["id"]]), body)
    return {"answers": answers, "bodies": bodies.all, "pictures": pictures.all, "axes": axes}


def _add_runs(
    content: Plain, session: Session, reading: Reading, versus: Reading | None, place: Place
) -> None:
    """Add the run, the reading to compare with, and the first place."""
    answer = session.get(PageRequest(kind="runs"))
    runs: list[Plain] = []
    for run_reading in filter(None, (reading, versus)):
        (run,) = (run for run in answer["runs"] if run["key"] == run_reading.run)
        runs.append({**run, "checkpoints": [], "chosen": run_reading.checkpoint or run["chosen"]})
    versus_text = "" if versus is None else f"{versus.run}@{versus.checkpoint} {versus.sentence}"
    first = {"sentence": reading.sentence, "place": asdict(place), "versus": versus_text}
    content["answers"]["runs"] = len(content["bodies"])
    content["bodies"].append({**answer, "runs": runs, **first})


class _Deduplicated:
    """A list of plain values without repetitions."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._index: dict[str, int] = {}

    def place(self, value: Any) -> int:
        """The index of a value, which is added if it is new."""
        text = json_text(value, sort_keys=True)
        if text not in self._index:
            self._index[text] = len(self.all)
            self.all.append(value)
        return self._index[text]


def _places(overview: Plain, first: Place, full: bool) -> Iterator[Place]:
    """The places of chapters: `first`, and all that differ from it in one axis."""
    names = [(stack["name"], stack["cross"]) for stack in overview["stacks"]]
    n_heads = sum(layer["heads"] for stack in overview["stacks"] for layer in stack["layers"])
    every_head = full or n_heads <= _MOST_HEADS
    if (first.stack, first.cross) not in names:
        first = replace(first, stack=names[0][0], cross=names[0][1])
    yield first
    yield replace(first, feature=first.feature + 1)
    n_source = len(overview["spare"])
    for stack in overview["stacks"]:
        name, cross = stack["name"], stack["cross"]
        encodes = n_source > 0 and name == "encoder"
        tokens = range(n_source if encodes else len(overview["ids"]))
        keys = range(n_source if encodes or cross else len(overview["ids"]))
        start = replace(first, stack=name, cross=cross)
        if (name, cross) != (first.stack, first.cross):
            # another text has other places: the page begins at its first token
            start = replace(start, token=0 if encodes else -1, other=0)
        start = replace(start, token=start.token % len(tokens), other=start.other % len(keys))
        yield start
        for layer, facts in enumerate(stack["layers"]):
            heads = range(max(1, facts["heads"]) if every_head or layer == first.layer else 1)
            for head in heads:
                yield replace(start, layer=layer, head=head)
                for token in tokens if full else ():
                    yield replace(start, layer=layer, head=head, token=token)
        for token in tokens:
            yield replace(start, token=token)
        for key in keys:
            yield replace(start, other=key)


def _relevant_axes(bodies: Mapping[Place, Any]) -> list[str]:
    """The axes along which a chapter changes; only these are part of its key."""
    relevant: list[str] = []
    for axis in _AXES:
        groups: dict[Any, set[str]] = {}
        for place, body in bodies.items():
            other_axes = tuple(getattr(place, name) for name in _AXES if name != axis)
            groups.setdefault(other_axes, set()).add(json_text(body, sort_keys=True))
        if any(len(variants) > 1 for variants in groups.values()):
            relevant.append(axis)
    return relevant


def _key(chapter: str, place: Place, axes: list[str]) -> str:
    return " ".join([chapter, *(f"{axis}={_plain(getattr(place, axis))}" for axis in axes)])


def _plain(value: object) -> str:
    """The value as JavaScript writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
