"""The worked examples: every page prints what it shows, every picture is what its numbers draw."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.pages import FOLDER, namespace_of, printed_anew

ROOT = FOLDER.parents[1]
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "README.md")
PICTURES = FOLDER / "pictures"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_number_on_the_page_is_what_its_code_prints(page: Path) -> None:
    text = page.read_text("utf-8")
    assert printed_anew(text, page.name) == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_computes_and_is_in_the_index(page: Path) -> None:
    assert "```output\n" in page.read_text("utf-8")
    assert f"]({page.name})" in (FOLDER / "README.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_output_stands_without_code_that_prints_it(page: Path) -> None:
    text = page.read_text("utf-8")
    n_outputs = len(re.findall(r"^```output$", text, re.M))
    after_code = re.findall(r"^```python\n(?:(?!```).*\n)*```\n\n```output$", text, re.M)
    assert n_outputs == len(after_code)


def test_a_page_with_a_wrong_number_is_noticed() -> None:
    page = "# Sum\n\n```python\nprint(1 + 1)\n```\n\n```output\n3\n```\n\nThe end.\n"
    assert printed_anew(page, "sum.md") == page.replace("3", "2")


def test_a_page_that_shows_nothing_of_what_is_printed_is_noticed() -> None:
    page = "```python\nx = 2\n```\n\n```python\nprint(x)\n```\n"
    assert printed_anew(page, "x.md") == page + "\n```output\n2\n```\n"


#: What texts print, and the page that has to come to it by computing.
PUBLISHED = {
    "cross-entropy": [".5108", ".105", "1.609", "4.605"],
    "self-attention": [
        "0.94 0.31 0.53 0.59 0.7  0.98",
        "0.2115 0.1126 0.1404 0.149  0.1664 0.2201",
        "0.5927 0.3357 0.537 ",
        "0.2693 0.9821 0.3865 0.8455",
        "0.8146 0.7583 0.7444 1.137 ",
        "0.9083 0.8406 1.0927 0.7955",
        "2.2131 1.2207 1.5923 1.7274 1.7276 2.5506",
        "0.1963 0.1195 0.1439 0.154  0.154  0.2324",
        "0.8516 0.7803 0.9675 0.9944",
        "-0.2117  0.1381  0.5026  0.2667",
        "0.625000  0.312500  0.062500",
        "0.993185  0.006692  0.000123",
        "0.652",
        "0.397  0.325  0.277",
    ],
    "initialisation": ["1.83", "0.316", "0.044", "1.41", "0.58"],
    "adamw": ["learning_rate=0.0003, betas=(0.9, 0.95)", "weight_decay=0.1"],
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_numbers_come_out_of_the_computation(name: str) -> None:
    outputs = re.findall(
        r"^```output\n(.*?)^```", (FOLDER / f"{name}.md").read_text("utf-8"), re.M | re.S
    )
    missing = [number for number in PUBLISHED[name] if number not in "".join(outputs)]
    assert missing == []


def test_pictures_are_drawn_again_byte_for_byte() -> None:
    draw = runpy.run_path(str(PICTURES / "draw.py"))
    drawings = {name: picture() for name, picture in draw["PICTURES"].items()}
    files = {file.name: file.read_text("utf-8") for file in PICTURES.glob("*.svg")}
    assert drawings == files


def test_the_picture_of_two_weights_shows_the_walk_of_the_page() -> None:
    draw = runpy.run_path(str(PICTURES / "draw.py"))
    page = namespace_of("adamw.md")
    for decoupled in (True, False):
        path = draw["adam_paths"](decoupled)
        np.testing.assert_allclose(path, page["walk"](decoupled), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("steps", [0, pytest.param(300, marks=pytest.mark.nightly)])
def test_one_network_of_the_depth_experiment_gives_its_results_again(steps: int) -> None:
    results = json.loads((ROOT / "benchmarks/results/depth.json").read_text("utf-8"))
    cell = runpy.run_path(str(ROOT / "benchmarks/depth.py"))["cell"]
    measured = cell("pre-norm", results["stds"]["He"], steps=steps)
    recorded = results["cells"]["pre-norm"]["He"]
    for key in ("measured", "estimate"):
        np.testing.assert_allclose(measured["start"][key], recorded["start"][key], rtol=2e-3)
        if steps:
            # 300 steps magnify what rounding makes different from one machine to the next
            np.testing.assert_allclose(measured["trained"][key], recorded["trained"][key], rtol=0.5)
    assert measured["start"]["loss"] == pytest.approx(recorded["start"]["loss"], rel=1e-3)
    if steps:
        assert measured["trained"]["loss"] == pytest.approx(recorded["trained"]["loss"], rel=0.3)


@pytest.mark.parametrize(("l1", "l2"), [(0.3, 0.0), (0.0, 0.15), (0.2, 0.05)])
def test_the_fit_of_the_page_is_that_of_scikit_learn(l1: float, l2: float) -> None:
    linear_model: Any = pytest.importorskip("sklearn.linear_model")
    page = namespace_of("penalties.md")
    X, y, m = page["X"], page["y"], len(page["y"])
    exact = {"fit_intercept": False, "tol": 1e-12}
    if l2 == 0:
        estimator = linear_model.Lasso(alpha=l1, max_iter=100_000, **exact)
    elif l1 == 0:
        estimator = linear_model.Ridge(alpha=2 * m * l2, **exact)
    else:
        alpha = l1 + 2 * l2
        estimator = linear_model.ElasticNet(alpha, l1_ratio=l1 / alpha, max_iter=100_000, **exact)
    weights = estimator.fit(X, y).coef_
    fitted = page["fit"](X, y, l1, l2)
    np.testing.assert_allclose(fitted, weights, atol=1e-8)
    np.testing.assert_array_equal(fitted == 0, weights == 0)
