"""The page as one file that needs no server: its modules, its style, and all of its answers.

The linker is small because the modules use few forms: named imports of each other, and `export`
before a function or a constant. Each module becomes a function that is called once.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pellucid.catalogue import LANGUAGES
from pellucid.disk import check_output, sealed, write_output
from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Place
from pellucid.json_text import json_text
from pellucid.web.assets import files, page_texts
from pellucid.web.file_answers import Watch, collect_answers
from pellucid.web.json_payload import Plain
from pellucid.web.requests import PageRequest, Reading
from pellucid.web.session import Session

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)\.js";\n', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.M)


@dataclass(frozen=True, slots=True)
class OnePage:
    """The file before it is written, and its number of answers.

    Attributes:
        html: the whole file.
        answers: how many requests of the page it can answer.
        full: whether it can answer all of them.
    """

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
            first place's token, and every token and key at its head; of a large model only the
            forward chapters there, and chapters of one layer at every layer.
        watch: Called before each answer with the number of finished ones and their total.

    Raises:
        PellucidError: The sentence cannot be read.
    """
    first = place or Place()
    content = collect_answers(
        partial(_ask_session, session, reading, versus),
        first,
        full,
        watch,
        partial(_describe_runs, session, reading, versus, first),
    )
    content["texts"] = {language: page_texts(language) for language in LANGUAGES}
    return OnePage(_html(content), len(content["answers"]), full)


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
    json_bytes = json_text(content, ensure_ascii=False).encode()
    payload = base64.b64encode(gzip.compress(json_bytes, 9, mtime=0)).decode()
    return inline_page(f'<script type="application/octet-stream" id="payload">{payload}</script>')


def inline_page(source: str) -> str:
    """The page with its scripts and style in it; `source` is the element its answers come from."""
    files_by_name = files()
    modules = {
        name.removesuffix(".js"): file.content.decode()
        for name, file in files_by_name.items()
        if name.endswith(".js")
    }
    script, style = linked(modules, "app"), files_by_name["app.css"].content.decode()
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
    body = f'{source}\n<script type="module">{script}</script>\n</body>'
    return page.replace("</body>", body)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _describe_runs(
    session: Session, reading: Reading, versus: Reading | None, place: Place
) -> Plain:
    """The run, the reading to compare with, and the first place."""
    answer = session.get(PageRequest(kind="runs"))
    runs: list[Plain] = []
    for run_reading in filter(None, (reading, versus)):
        (run,) = (run for run in answer["runs"] if run["key"] == run_reading.run)
        runs.append({**run, "checkpoints": [], "chosen": run_reading.checkpoint or run["chosen"]})
    versus_text = "" if versus is None else f"{versus.run}@{versus.checkpoint} {versus.sentence}"
    first = {"sentence": reading.sentence, "place": asdict(place), "versus": versus_text}
    return {**answer, "runs": runs, **first}


def _ask_session(
    session: Session, reading: Reading, versus: Reading | None, kind: str, **parameters: Any
) -> Plain:
    return session.get(PageRequest(kind=kind, reading=reading, versus=versus, **parameters))
