"""A benchmark of training: equal conditions for all, the refusals, and the text of its table."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.counting import flops_per_token, parameter_count


def its(module: str) -> Any:
    return importlib.import_module(f"benchmarks.{module}")


def tiny(**numbers: int) -> Any:
    sizes = {"vocab": 97, "length": 8, "batch": 3, "layers": 2, "heads": 2, "width": 16}
    return its("shapes").Shape("tiny", **(sizes | numbers))


def fact(name: str, loss: float, **more: Any) -> dict[str, Any]:
    facts = {"parameters": 10, "precision": "float32", "same_weights": True}
    return {name: facts | {"float32_loss": loss, "first_loss": loss} | more}


def test_gpt2_has_the_parameters_that_were_published() -> None:
    gpt2 = its("shapes").SHAPES["gpt2-1024"]
    assert parameter_count(tiny_of(gpt2, vocab=50_257)) == 124_439_808


def tiny_of(shape: Any, **numbers: int) -> Any:
    return its("shapes").Shape(**(its("shapes").as_json(shape) | numbers)).model()


@pytest.mark.parametrize("name", ["char", "between", "mid", "gpt2", "gpt2-1024"])
def test_the_formula_of_flops_is_what_counting_counts_but_for_biases(name: str) -> None:
    shape = its("shapes").SHAPES[name]
    n_flops = sum(row.forward + row.backward for row in flops_per_token(shape.model()))
    # a bias is an addition, which counting has among its 2 FLOPs per parameter
    biases = shape.layers * 9 * shape.width
    assert shape.flops == shape.tokens * (n_flops - 6 * biases)


def test_flags_change_the_numbers_of_a_shape_and_what_cannot_be_built_is_refused() -> None:
    flags = its("train").flags()

    def shape_from(*words: str) -> Any:
        return its("shapes").as_asked("char", flags.parse_args(words))

    assert shape_from() == its("shapes").SHAPES["char"]
    assert (
        shape_from("--width", "96", "--heads", "3").describe().endswith("4 layers of 96 in 3 heads")
    )
    for words in (["--heads", "3"], ["--layers", "0"]):
        with pytest.raises(SystemExit, match=r"no model has vocabulary 65.*multiple of --heads"):
            shape_from(*words)


def test_drawn_ids_follow_zipf_and_stay_in_the_vocabulary(tmp_path: Path) -> None:
    description = its("shapes").write_ids(tiny(), None, tmp_path / "ids.npy")
    ids = np.load(tmp_path / "ids.npy")
    counts = np.sort(np.bincount(ids, minlength=97))[::-1]
    assert len(counts) == 97
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.1)
    assert "1 / k" in description


def test_a_text_with_more_kinds_of_bytes_than_ids_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(bytes(range(98)) * 10)
    with pytest.raises(SystemExit, match="98 kinds of bytes, and the vocabulary of tiny is 97"):
        its("shapes").write_ids(tiny(), tmp_path / "text", tmp_path / "ids.npy")


def test_targets_are_the_ids_one_place_on_and_batches_follow_each_other(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.arange(97, dtype=np.int32))
    feed = its("shapes").Feed(tiny(), tmp_path / "ids.npy", "cpu")
    ids, targets = feed.batch(0)
    assert ids.flatten().tolist() == list(range(24))
    assert targets.tolist() == (ids + 1).tolist()
    assert int(feed.batch(1)[0][0, 0]) == 24
    # round and round, never past the end
    assert all(int(feed.batch(step)[1].max()) <= 96 for step in range(50))


def test_parity_holds_where_losses_agree() -> None:
    bf16 = {"precision": "bfloat16", "first_loss": 4.015}
    facts = fact("a", 4.0) | fact("b", 4.00009) | fact("c", 4.0, **bf16)
    its("train").check_parity(facts | fact("other weights", 9.0, same_weights=False))


@pytest.mark.parametrize(
    "other",
    [
        fact("b", 4.00011),
        fact("b", float("nan")),
        fact("b", 4.0, precision="bfloat16", first_loss=4.021),
        # other types than bf16 must agree with float32
        fact("b", 4.0, first_loss=4.001),
    ],
)
def test_unequal_losses_of_the_same_weights_stop_the_run(other: dict[str, Any]) -> None:
    with pytest.raises(SystemExit, match="no parity: from the same weights, b has a"):
        its("train").check_parity(fact("a", 4.0) | other)


def results() -> dict[str, Any]:
    """Results as they are kept, of turns that were never taken."""
    turn = its("workers").Turn
    turns = {
        "peer, float32": [turn(2, 4.0, 8.0, 300_000_000, {"loss": 4.0})] * 3,
        "pellucid, vital signs": [turn(2, 1.0, 4.0, 100_000_000, {"loss": 4.0})] * 3,
    }
    shape = tiny(vocab=4096)
    limits = {
        clock: {"bfloat16": 4 * shape.flops, "float32": 2 * shape.flops, "read": 3e10}
        for clock in ("best", "by_processor")
    }
    shape_results = {
        "shape": its("shapes").as_json(shape),
        "said": shape.describe(),
        "ids": "drawn",
        "flops": shape.flops,
        "ln_vocab": 8.3178,
        "limits": limits,
        "settled": ["pellucid, vital signs"],
        "facts": fact("peer, float32", 8.3) | fact("pellucid, vital signs", 8.3),
        "summary": its("train_table").summary(turns, shape, limits),
        "turns": {name: [vars(turn) for turn in turn_list] for name, turn_list in turns.items()},
    }
    machine = {"processor": "P", "cores": 2, "capability": "AVX", "torch": "2", "python": "3"}
    head = {"command": "python -m x", "date": "2026-01-02", "commit": "abc", "threads": 2}
    all_results = head | {"machine": machine, "load_before": 0.5, "shapes": {"tiny": shape_results}}
    return json.loads(json.dumps(all_results))


def test_the_table_says_speeds_ratios_shares_and_memory() -> None:
    lines = its("train_table").tables(results()).splitlines()
    (peer,) = (line for line in lines if line.startswith("| peer"))
    # 24 tokens in 2 s; 4 times as slow; flops / 2 s of a peak of 2 flops
    assert peer.startswith("| peer, float32 | 12 | 4.00 (4.00 to 4.00; 2.00) | 25% of float32 |")
    assert "| 300 |" in peer
    (row,) = (line for line in lines if line.startswith("| pellucid"))
    assert row.startswith("| pellucid, vital signs | 48 |  | 100% of float32 | 100 |")
    assert "`python -m x`, 2026-01-02: P, 2 cores (AVX), 2 threads" in lines[0]


def test_the_page_takes_the_newest_results_and_says_what_was_not_measured(tmp_path: Path) -> None:
    page = its("performance_page")
    sections = {
        "train": page.Section("train-cpu", "benchmarks.train_table:tables", "benchmarks.train"),
        "loss": page.Section("loss", "benchmarks.loss:tables", "benchmarks.loss"),
    }
    old = results() | {"command": "python -m old"}
    (tmp_path / "train-cpu-2026-01-01.json").write_text(json.dumps(old), encoding="utf-8")
    (tmp_path / "train-cpu-2026-01-02.json").write_text(json.dumps(results()), encoding="utf-8")
    # results of another benchmark whose name begins alike
    (tmp_path / "loss-settled-2026-01-02.json").write_text("{}", encoding="utf-8")
    text = "a\n<!-- train -->\nx\n<!-- end -->\nb\n<!-- loss -->\n<!-- end -->\n"
    filled = page.filled(text, sections, tmp_path)
    assert "| peer, float32 | 12 |" in filled
    assert "old" not in filled
    assert filled.count("<!-- end -->") == 2
    assert "<!-- loss -->\nNot measured yet: `python -m benchmarks.loss` does it.\n" in filled
    assert page.filled(filled, sections, tmp_path) == filled


def test_a_page_without_a_place_for_a_section_is_refused(tmp_path: Path) -> None:
    page = its("performance_page")
    with pytest.raises(ValueError, match="0 places for <!-- loss -->"):
        page.filled("no marks", {"loss": page.SECTIONS["loss"]}, tmp_path)


def test_the_page_has_a_place_for_every_section() -> None:
    page = its("performance_page")
    text = page.PAGE.read_text(encoding="utf-8")
    for name in page.SECTIONS:
        assert text.count(f"<!-- {name} -->\n") == 1


def test_the_command_is_told_with_the_flags_that_were_given() -> None:
    parser = its("train").flags()
    words = ["--shape", "mid", "--turns", "2", "--compiled", "--out", "x", "--nanogpt", "a/nanoGPT"]
    flags = its("machine").flags_of(parser, parser.parse_args(words))
    assert flags == ["--shape", "mid", "--nanogpt", "nanoGPT", "--turns", "2", "--compiled"]


def test_contestants_that_do_not_fit_into_memory_are_not_started() -> None:
    shape = tiny()
    needed_bytes = 16 * parameter_count(shape.model())
    its("train").check_memory(shape, 3, 3 * needed_bytes)
    with pytest.raises(SystemExit, match="4 contestants of tiny hold at least"):
        its("train").check_memory(shape, 4, 4 * needed_bytes - 1)


def test_who_multiplies_other_weights_must_multiply_as_many() -> None:
    shape = tiny()
    assert shape.products == 12 * 2 * 16 * 16 + 97 * 16
    other = fact("b", 9.0, same_weights=False, products=shape.products)
    its("train").check_sizes(fact("a", 4.0) | other, shape)
    with pytest.raises(SystemExit, match="b multiplies a token with 7,697 weights"):
        its("train").check_sizes(fact("b", 9.0, same_weights=False, products=7697), shape)
