"""One file: whole, honest about what it holds, and linked from the same modules."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from pellucid.catalogue import message
from pellucid.cli import main
from pellucid.errors import PellucidError
from pellucid.explain import backward_segments
from pellucid.explain.chapter_types import Place
from pellucid.web import OnePage, Reading, Session, one_page, parse_request, write_page
from pellucid.web.assets import files
from pellucid.web.json_payload import Plain
from pellucid.web.notebook import framed
from pellucid.web.onefile import linked
from pellucid.web.requests import PageRequest
from support.one_file import page_content

SENTENCE = "fox"


@pytest.fixture(scope="module")
def page(session: Session) -> OnePage:
    return one_page(session, Reading("run0", "", SENTENCE), place=Place(token=2, layer=1))


def test_the_file_names_nothing_outside_and_allows_only_itself(page: OnePage) -> None:
    assert not re.search(r'(?:src|href)="(?!#)', page.html)
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', page.html)[0]
    assert policy.startswith("default-src 'none';")
    (script,) = re.findall(r'<script type="module">(.*?)</script>', page.html, re.S)
    (style,) = re.findall(r"<style>(.*?)</style>", page.html, re.S)
    for text in (script, style):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def plain(body: Plain) -> Plain:
    """A body without the lists of its messages and of its pictures'."""
    pictures = [plain(picture) for picture in body.get("pictures", ())]
    fields = {key: value for key, value in body.items() if key not in ("messages", "pictures")}
    return fields | ({"pictures": pictures} if pictures else {})


def test_the_file_answers_as_the_session_does(page: OnePage, session: Session) -> None:
    content = page_content(page)
    reading = {"run": "run0", "checkpoint": "", "sentence": SENTENCE}
    answers, bodies = content["answers"], content["bodies"]
    question = parse_request({"kind": "prediction", "reading": reading, "place": {"token": 3}})
    assert bodies[answers["prediction 3"]] == json.loads(session.answer(question))
    place = {"token": 2, "layer": 1, "head": 1}
    question = parse_request(
        {"kind": "chapter", "chapter": "scores", "reading": reading, "place": place}
    )
    axes = content["axes"]["scores"]
    assert {"layer", "head", "token", "other"} <= set(axes)
    full = {"stack": "decoder", "other": 0, "feature": 0, "cross": "false", **place}
    key = " ".join(["scores", *(f"{axis}={full[axis]}" for axis in axes)])
    body = bodies[answers[key]]
    pictures = [
        content["pictures"][index] for index in body["pictures"]
    ]  # equal ones are held once
    answer = json.loads(session.answer(question))
    assert plain({**body, "pictures": pictures}) == plain(answer)
    # a chapter of a file has its pictures' messages in the pictures
    of_pictures = [[*path[2:], key] for path, key, _ in answer["messages"] if path[0] == "pictures"]
    assert of_pictures == [[*m[0], m[1]] for p in pictures for m in p.get("messages", ())]


def test_a_file_holds_what_it_is_compared_with(session: Session) -> None:
    reading, versus = Reading("run0", "", SENTENCE), Reading("run0", "step-8", SENTENCE)
    content = page_content(one_page(session, reading, versus=versus))
    answers, bodies = content["answers"], content["bodies"]
    assert bodies[answers["runs"]]["versus"] == f"run0@step-8 {SENTENCE}"
    assert bodies[answers["prediction 3"]]["changed"]["kl"] > 0
    keys = [key for key in answers if key.startswith("compare")]
    assert all("step-8" in bodies[answers[key]]["sentence"] for key in keys)


def test_what_does_not_matter_to_a_chapter_is_no_part_of_its_key(page: OnePage) -> None:
    axes = page_content(page)["axes"]
    assert "head" not in axes["tokens"]
    assert "layer" not in axes["loss"]


def test_the_way_back_is_in_the_file_and_what_is_slow_at_one_place(page: OnePage) -> None:
    content = page_content(page)
    keys = list(content["answers"])
    assert set(content["bodies"][content["answers"]["backward"]]["stacks"]) == {"decoder"}
    for chapter in ("nudge", "after-update"):
        assert len([key for key in keys if key.startswith(f"{chapter} ")]) == 1
    assert {"weight", "row", "column", "layer"} <= set(content["axes"]["nudge"])
    assert content["axes"]["after-update"] == ["token"]  # one stack: it is no part of a key
    assert len({key for key in keys if key.startswith("gradients ")}) > 2


def test_a_large_models_file_holds_the_way_forward_at_one_token(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backward_segments, "LARGE", 1)
    kinds, get = list[str](), session.get
    counts: list[tuple[int, int]] = []

    def note(ask: PageRequest) -> Plain:
        kinds.append(ask.kind)
        return get(ask)

    monkeypatch.setattr(session, "get", note)
    page = one_page(
        session,
        Reading("run0", "", SENTENCE),
        place=Place(token=2, layer=1, head=1),
        watch=lambda n_done, total: counts.append((n_done, total)),
    )
    content = page_content(page)
    assert "backward" not in kinds
    assert counts == [(n, page.answers) for n in range(page.answers)]
    body = content["bodies"][content["answers"]["update"]]
    assert plain(body) == {"error": message("large-file")}
    layers = {key for key in content["answers"] if key.startswith("softmax ")}
    assert len(layers) == 2
    (lens,) = (key for key in content["answers"] if key.startswith("lens "))
    # no key leaves out an axis that matters: no other place is answered with this one's numbers
    assert lens == "lens token=2"
    assert not content["bodies"][content["answers"]["overview"]]["backward"]["there"]


def test_full_holds_every_head_at_every_token(session: Session) -> None:
    content = page_content(one_page(session, Reading("run0", "", "a"), full=True))
    keys = [key for key in content["answers"] if key.startswith("scores ")]
    for layer, head, token in ((0, 0, 1), (1, 1, 0), (0, 1, 1)):
        parts_of_key = {f"layer={layer}", f"head={head}", f"token={token}"}
        assert any(parts_of_key <= set(key.split()) for key in keys)


def test_modules_are_linked_each_after_those_it_imports() -> None:
    low = 'import { two } from "./deep.js";\nexport const twice = 2 * two;\n'
    low += "export function a() {\n  return two;\n}\n"
    modules = {
        "app": 'import { a as b, twice } from "./low.js";\nexport const y = b() + twice;\n',
        "low": low,
        "deep": "export const two = 2;\n",
    }
    script = linked(modules, "app")
    order = [script.index(f"const module_{name} ") for name in ("deep", "low", "app")]
    assert order == sorted(order)
    assert "const { a: b, twice } = module_low;" in script
    assert "return { twice, a };" in script
    assert "import" not in script


def test_every_module_of_the_page_can_be_linked() -> None:
    modules = {
        name.removesuffix(".js"): file.content.decode()
        for name, file in files().items()
        if name.endswith(".js") and not name.startswith("learn/")  # it needs a server
    }
    script = linked(modules, "app")
    assert not re.search(r"^(import|export) ", script, re.M)
    assert all(f"const module_{name.replace('.', '_')} =" in script for name in modules)
    assert "</script" not in script


def test_a_frame_keeps_the_page_apart(page: OnePage) -> None:
    frame = framed(page.html)
    assert frame.startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts"' in frame
    assert frame.count("<") == 2  # the page within is escaped


def test_a_file_is_named_html_and_lies_in_a_folder(page: OnePage, tmp_path: Path) -> None:
    with pytest.raises(PellucidError, match=r"does not end in \.html"):
        write_page(page, tmp_path / "x.txt")
    with pytest.raises(PellucidError, match="there is no folder"):
        write_page(page, tmp_path / "none" / "x.html")


def test_the_command_says_the_size_and_writes_it(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.html"
    assert main(["explain", str(trained), "ox", "--html", str(file)]) == 0
    printed = capsys.readouterr().out
    assert re.fullmatch(r".*out\.html: \d+(\.\d)? kB, \d+ views\n", printed)
    assert 50_000 < file.stat().st_size < 2_000_000
    assert main(["explain", str(trained), "ox", "--html", str(file), "--serve"]) == 2
    assert main(["explain", str(trained), "", "--html", str(file)]) == 2
