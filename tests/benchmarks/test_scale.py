"""How cost grows: the change at each point, and the texts of tables and plots."""

from __future__ import annotations

import importlib
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest


def its(module: str) -> Any:
    return importlib.import_module(f"benchmarks.{module}")


def test_lengths_share_one_number_of_tokens() -> None:
    scale = its("scale")
    shapes = [scale.shape_at("length", length) for length in scale.AXES["length"]]
    assert {shape.tokens for shape in shapes} == {scale.TOKENS}
    assert [shape.length for shape in shapes] == scale.AXES["length"]


@pytest.mark.parametrize(
    ("axis", "field"), [("vocabulary", "vocab"), ("depth", "layers"), ("width", "width")]
)
def test_one_number_is_changed_at_a_time(axis: str, field: str) -> None:
    scale = its("scale")
    base, changed_shape = (
        its("shapes").as_json(scale.BASE),
        its("shapes").as_json(scale.shape_at(axis, 512)),
    )
    assert changed_shape[field] == 512
    changed_names = {name for name in base if base[name] != changed_shape[name]}
    assert changed_names - {field} <= ({"heads"} if axis == "width" else set())


def points() -> list[dict[str, Any]]:
    """Two points of an axis, of turns that were never taken."""
    scale, turn = its("scale"), its("workers").Turn
    facts = {"precision": "bfloat16", "bytes_before": 10**8}
    limits = {clock: {"bfloat16": 1e11, "float32": 5e10, "read": 1e10} for clock in CLOCKS}
    return [
        scale.point(
            "depth",
            layers,
            [turn(2, layers * seconds, layers, 10**8 * (1 + layers), {}) for seconds in (1, 2, 4)],
            facts,
            limits,
        )
        for layers in (2, 4)
    ]


CLOCKS = ("best", "by_processor")


def saved_results() -> dict[str, Any]:
    limits = {clock: {"bfloat16": 1e11, "float32": 5e10, "read": 1e10} for clock in CLOCKS}
    machine = {"processor": "P", "cores": 2, "capability": "AVX", "torch": "2", "python": "3"}
    head = {"command": "python -m x", "date": "2026-01-02", "commit": "abc", "threads": 1}
    axes = {"depth": {"limits": limits, "points": points()}}
    facts = {"machine": machine, "load_before": 0.5, "said": "a base", "axes": axes}
    return json.loads(json.dumps(head | facts))


def test_a_point_is_the_median_of_its_turns_beside_what_arithmetic_says() -> None:
    first, second = points()
    # 2,048 tokens an update; 2 updates took 2, 4 and 8 seconds
    assert first["tokens_per_second"] == 2048 / 2
    assert first["tokens_per_second_range"] == [2048 / 4, 2048]
    shape = its("scale").shape_at("depth", 2)
    assert first["tokens_per_second_at_peak"] == pytest.approx(2048 * 1e11 / shape.flops)
    assert first["share_of_peak"] == pytest.approx(shape.flops / 2 / 1e11)
    assert first["bytes"] == 2 * 10**8
    assert second["counted_bytes"] > first["counted_bytes"]


def test_every_axis_has_a_table_and_two_plots_that_the_page_shows() -> None:
    page = its("scale_page")
    text = page.page(saved_results())
    assert "| 2 | 1,024 (512 to 2,048) |" in text
    plots = page.draw(saved_results())
    assert set(plots) == {"depth-speed", "depth-memory"}
    for name, drawing in plots.items():
        assert f"(performance/{name}.svg)" in text
        lines = ET.fromstring(drawing).iter("{http://www.w3.org/2000/svg}polyline")
        assert len(list(lines)) == 2


def test_a_corpus_is_as_large_as_it_says(tmp_path: Path) -> None:
    its("scale_contestants").write_text(tmp_path / "text", 3)
    text = (tmp_path / "text").read_bytes()
    assert len(text) == 3_000_000
    first, second, third = text.splitlines()
    assert len({first, second, third}) == 3
