"""The documentation as a site: which pages it has, and where their links lead."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from docs.site.links import dead_links
from docs.site.reference import rooms, write
from docs.site.stage import LICENCE, ROOT, relinked, sources, stage

import pellucid
from pellucid.cli.main import main


def leaves(entry: Any) -> Iterator[str]:
    """The pages of a part of the navigation."""
    match entry:
        case str():
            yield entry
        case dict():
            for inner in entry.values():
                yield from leaves(inner)
        case _:
            for inner in entry:
                yield from leaves(inner)


def test_every_page_is_in_the_navigation_once() -> None:
    project = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    nav_pages = sorted(leaves(project["nav"]))
    expected_pages = {page for _, page in sources() if page.endswith(".md")}
    generated = {"reference/cli.md", "reference/python/index.md"}
    assert nav_pages == sorted(expected_pages | generated | {LICENCE})


@pytest.mark.parametrize(
    ("line", "page", "expected"),
    [
        ("[a](docs/plan.md#x)", "index.md", "[a](plan.md#x)"),
        ("[a](docs/derivations/README.md)", "index.md", "[a](derivations/index.md)"),
        ("[a](docs/concepts)", "index.md", "[a](concepts/index.md)"),
        ("![a](docs/pictures/rooms.svg)", "index.md", "![a](pictures/rooms.svg)"),
        ("[a](CHANGELOG.md)", "deep/page.md", "[a](../changelog.md)"),
        ("[a](src/pellucid/cores.py)", "index.md", "a (`src/pellucid/cores.py`)"),
        ("[`src/pellucid/cores.py`](src/pellucid/cores.py)", "x.md", "`src/pellucid/cores.py`"),
        ("[a](#below) [b](https://c.d)", "index.md", "[a](#below) [b](https://c.d)"),
        ("```diff src/a.py\n+[a](b.md)\n```", "x.md", '```diff title="src/a.py"\n+[a](b.md)\n```'),
    ],
)
def test_a_link_leads_to_its_page_on_the_site(line: str, page: str, expected: str) -> None:
    assert relinked(line, ROOT / "README.md", page) == expected


def test_the_generated_pages_have_every_command_and_every_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage(tmp_path / "pages")
    write(tmp_path / "pages")
    public = {room.name: room.members for room in rooms()}
    assert public.keys() > {"pellucid", "pellucid.maths", "pellucid.vitals"}
    assert "PellucidForCausalLM" in public["pellucid.transformers"]  # its library may be missing
    modules = set(pellucid.__all__) - set(public["pellucid"])
    assert "diagnosis" in modules
    assert all(isinstance(getattr(pellucid, name), ModuleType) for name in modules)
    page = (tmp_path / "pages" / "reference" / "cli.md").read_text("utf-8")
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    assert capsys.readouterr().out in page


def test_a_dead_link_is_named_with_its_page(tmp_path: Path) -> None:
    (tmp_path / "404.html").write_text('<a href="/anywhere">')
    (tmp_path / "a.html").write_text('<h1 id="top"><a href="b.html#x"><a href="b.html#y">')
    (tmp_path / "b.html").write_text('<h1 id="x"><a href="a.html"><img src="c.svg"><a href="#no">')
    (tmp_path / "d.html").write_text('<a href="https://a.b"><script src="https://a.b/c.js">')
    assert dead_links(tmp_path) == [
        "a.html: b.html#y leads to no anchor",
        "b.html: c.svg leads to no file",
        "b.html: #no leads to no anchor",
        "d.html: https://a.b/c.js is loaded from a server",
    ]


def test_arguments_that_share_a_line_are_listed_one_by_one() -> None:
    pytest.importorskip("griffe", reason="the package griffe is not installed: .[docs]")
    from docs.site.docstrings import spread

    body = "    As `f`. q, k: (time, d). scale: of the\n    scores: any. Returns (time, time)."
    assert spread("Args", body, {"q", "k", "scale"}).rstrip().splitlines() == [
        "As `f`.",
        "",
        "Args:",
        "    q: (time, d).",
        "    k: (time, d).",
        "    scale: of the scores: any.",
        "",
        "Returns:",
        "    (time, time).",
    ]
