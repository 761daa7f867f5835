"""Drawings: nothing is left out, nothing is counted twice, nothing runs into something else."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given

from pellucid import config
from pellucid.config import Transformer
from pellucid.counting import parameter_count
from pellucid.drawing import as_svg, as_text, assemble, boxes, place
from pellucid.drawing.picture import Line, Picture, Rectangle
from pellucid.drawing.svg import CELL_HEIGHT, CELL_WIDTH, FONT_SIZE
from pellucid.presets import PRESETS
from support.architectures import SMALL, transformers, with_stack
from support.drawings import BOTH, LARGE, MODELS, RULES

SVG = "{http://www.w3.org/2000/svg}"
PRESET_MODELS = {
    name: replace(run.model, vocab_size=run.model.vocab_size or 4096)
    for name, run in PRESETS.items()
}
TO_DRAW = {**MODELS, **PRESET_MODELS, "both": BOTH, "large": LARGE}


def pictures(model: Transformer) -> list[Picture]:
    drawing = assemble(model, "a model")
    return [place(drawing), place(drawing, side_by_side=True)]


def counted(model: Transformer) -> int:
    columns = assemble(model, "a model").columns
    return sum(box.parameters * box.times for column in columns for box in boxes(column))


@given(transformers())
def test_boxes_hold_all_parameters_and_none_twice(model: Transformer) -> None:
    assert counted(model) == parameter_count(model)


@pytest.mark.parametrize("name", TO_DRAW)
def test_boxes_of_a_kind_or_preset_hold_its_parameters(name: str) -> None:
    assert counted(TO_DRAW[name]) == parameter_count(TO_DRAW[name])


def architectural() -> set[str]:
    """Every kind that may occur in a model, without the kinds of initial weights."""
    kinds: set[type] = set()
    waiting: list[object] = [Transformer]
    while waiting:
        hint = waiting.pop()
        waiting += typing.get_args(hint)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint) and hint not in kinds:
            kinds.add(hint)
            if hint is not config.Initialisation:
                waiting += typing.get_type_hints(hint).values()
    containers = {Transformer, config.Stack, config.Embedding, config.Initialisation}
    return {kind.__name__ for kind in kinds - containers}


def test_there_is_a_model_to_draw_for_every_kind() -> None:
    assert set(MODELS) == architectural()


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_is_called_by_its_name(kind: str) -> None:
    for picture in pictures(MODELS[kind]):
        assert kind in as_text(picture)
        assert kind in as_svg(picture)


def test_what_a_model_does_not_have_is_not_drawn() -> None:
    text = as_text(place(assemble(SMALL, "small")))
    absent = {kind for kind in MODELS if kind not in text}
    drawn_kinds = {"RMSNorm", "PreNorm", "Learned", "MLP", "MultiHead", "LanguageHead"}
    assert set(MODELS) - absent == drawn_kinds


def test_each_rule_puts_its_norms_where_it_says() -> None:
    """In a drawing with one letter per part: n a norm, f a layer, + where the path joins."""
    norm_places = {
        type(rule).__name__: order(with_stack(residual=rule, final_norm=False)) for rule in RULES
    }
    assert norm_places == {
        "PreNorm": "nf+nf+",
        "PostNorm": "f+nf+n",
        "OutputNorm": "fn+fn+",
        "SandwichNorm": "nfn+nfn+",
        "DeepNorm": "f+nf+n",
        "Parallel": "nfnf+",
        "NoResidual": "nfnf",
    }


def order(model: Transformer) -> str:
    signs = {"RMSNorm": "n", "attention:": "f", "feed-forward:": "f", "(+)": "+"}
    words = re.findall("|".join(map(re.escape, signs)), as_text(place(assemble(model, "m"))))
    return "".join(signs[word] for word in words)


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        (26, ["layers 1, 3, 5, ..., 25", "layers 2, 4, 6, ..., 26"]),
        (3, ["layers 1, 3", "layer 2"]),
    ],
)
def test_alternating_says_which_layers_are_which(layers: int, said: list[str]) -> None:
    stack = PRESET_MODELS["gemma2-2b"].decoder
    assert stack is not None
    model = replace(PRESET_MODELS["gemma2-2b"], decoder=replace(stack, n_layers=layers))
    text = as_text(place(assemble(model, "gemma2-2b")))
    assert re.findall(r"│ (layers? \d[\d, .]*\d|layer \d)", text) == said


def inside(one: Rectangle, other: Rectangle) -> bool:
    level = other.x < one.x and one.right < other.right
    return level and other.y < one.y and one.bottom < other.bottom


def apart(one: Rectangle, other: Rectangle) -> bool:
    is_beside = one.right < other.x or other.right < one.x
    return is_beside or one.bottom < other.y or other.bottom < one.y


def check_nothing_runs_into_anything(picture: Picture) -> None:
    for first, second in combinations(picture.rectangles, 2):
        nested = (second.kind == "frame" and inside(first, second)) or (
            first.kind == "frame" and inside(second, first)
        )
        assert nested or apart(first, second), (first, second)
    text_cells = [(text.x + i, text.y) for text in picture.texts for i in range(len(text.text))]
    assert len(text_cells) == len(set(text_cells))
    within(picture, text_cells)
    within(picture, [point for line in picture.lines for point in line.points])
    borders = {cell for box in picture.rectangles if box.kind != "words" for cell in border(box)}
    names = {(t.x + i, t.y) for t in picture.texts if not t.covers_line for i in range(len(t.text))}
    assert names & borders == set()
    flows = {cell for line in picture.lines for cell in passed(line)}
    assert names & flows == set()
    parts = [box for box in picture.rectangles if box.kind != "frame"]
    assert {cell for box in parts for cell in filled(box)} & flows == set()
    # what goes around a layer does not go through it
    frames = {cell for box in picture.rectangles if box.kind == "frame" for cell in border(box)}
    residual_cells = {
        cell for line in picture.lines if line.kind == "residual" for cell in passed(line)
    }
    assert frames & residual_cells == set()


def passed(line: Line) -> Iterator[tuple[int, int]]:
    """The cells that a line goes through, its ends left out: they are on what it joins."""
    cells = [
        (x, y)
        for (x1, y1), (x2, y2) in pairwise(line.points)
        for x in range(min(x1, x2), max(x1, x2) + 1)
        for y in range(min(y1, y2), max(y1, y2) + 1)
    ]
    yield from (cell for cell in cells if cell not in (line.points[0], line.points[-1]))


def within(picture: Picture, cells: list[tuple[int, int]]) -> None:
    assert all(0 <= x < picture.width and 0 <= y < picture.height for x, y in cells)


def filled(box: Rectangle) -> Iterator[tuple[int, int]]:
    for x in range(box.x, box.right + 1):
        yield from ((x, y) for y in range(box.y, box.bottom + 1))


def border(box: Rectangle) -> Iterator[tuple[int, int]]:
    for x in range(box.x, box.right + 1):
        yield from ((x, box.y), (x, box.bottom))
    for y in range(box.y, box.bottom + 1):
        yield from ((box.x, y), (box.right, y))


@given(transformers())
def test_nothing_runs_into_anything(model: Transformer) -> None:
    for picture in pictures(model):
        check_nothing_runs_into_anything(picture)


@pytest.mark.parametrize("name", TO_DRAW)
def test_nothing_of_a_kind_or_preset_runs_into_anything(name: str) -> None:
    for picture in pictures(TO_DRAW[name]):
        check_nothing_runs_into_anything(picture)


@pytest.mark.parametrize("name", TO_DRAW)
def test_text_is_at_most_80_columns_wide(name: str) -> None:
    picture = place(assemble(TO_DRAW[name], name))
    for ascii_only in (False, True):
        text = as_text(picture, ascii_only=ascii_only)
        assert max(map(len, text.splitlines())) <= 80
        assert text.isascii() is ascii_only


def test_words_in_both_spellings_are_the_same() -> None:
    picture = place(assemble(BOTH, "both"))
    boxed, plain = (as_text(picture, ascii_only=ascii_only) for ascii_only in (False, True))
    words = r"[A-Za-z0-9]{2,}"
    assert re.findall(words, boxed) == re.findall(words, plain)
    assert [len(line) for line in boxed.splitlines()] == [len(line) for line in plain.splitlines()]


@pytest.mark.parametrize("name", [*MODELS, "gpt2", "t5-small", "bert-base"])
def test_svg_is_one_file_that_names_and_describes_itself(name: str) -> None:
    model = MODELS[name] if name in MODELS else PRESET_MODELS[name]
    tree = ElementTree.fromstring(as_svg(place(assemble(model, name), side_by_side=True)))
    title, description = tree.find(f"{SVG}title"), tree.find(f"{SVG}desc")
    assert title is not None
    assert title.text == name
    assert description is not None
    assert f"{parameter_count(model):,} parameters" in str(description.text)
    assert tree.get("role") == "img"
    tags = {element.tag.removeprefix(SVG) for element in tree.iter()}
    assert tags <= {"svg", "title", "desc", "style", "path", "rect", "circle", "text", "g"}
    referring = {name for element in tree.iter() for name in element.attrib if "href" in name}
    assert referring == set()
    style = "".join(element.text or "" for element in tree.iter(f"{SVG}style"))
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme: dark" in style


def test_no_text_of_the_svg_is_wider_than_its_box() -> None:
    """Letters of a monospaced font are at most .61 em wide; each has a cell to itself."""
    assert FONT_SIZE * 0.61 <= CELL_WIDTH
    assert FONT_SIZE * 1.2 <= CELL_HEIGHT
    tree = ElementTree.fromstring(as_svg(place(assemble(BOTH, "both"), side_by_side=True)))
    sides = [
        (float(box.get("x", "")), float(box.get("x", "")) + float(box.get("width", "")), box)
        for box in tree.iter(f"{SVG}rect")
        if box.get("class") != "frame"
    ]
    checked = 0
    for text in tree.iter(f"{SVG}text"):
        x, y = float(text.get("x", "")), float(text.get("y", ""))
        for left, right, box in sides:
            top = float(box.get("y", ""))
            if left < x < right and top < y < top + float(box.get("height", "")):
                assert x + len(str(text.text)) * FONT_SIZE * 0.61 < right
                checked += 1
    assert checked > 40


def test_a_name_that_xml_cannot_hold_is_spelt_all_the_same() -> None:
    tree = ElementTree.fromstring(as_svg(place(assemble(SMALL, "a\x00<b>&\"c'"))))
    assert tree.findtext(f"{SVG}title") == "a?<b>&\"c'"


def test_head_that_is_tied_has_a_line_back_to_the_embedding() -> None:
    for tied in (True, False):
        model = replace(SMALL, embedding=config.Embedding(tied=tied, scaled=False))
        kinds = [line.kind for line in place(assemble(model, "m")).lines]
        assert kinds.count("tied") == tied


def test_decoder_is_handed_the_encoders_states_and_each_stack_its_positions() -> None:
    for side_by_side in (False, True):
        kinds = [
            line.kind for line in place(assemble(BOTH, "both"), side_by_side=side_by_side).lines
        ]
        assert kinds.count("encoded") == 1
        assert kinds.count("positions") == 2
        assert kinds.count("tied") == 1
