"""The counted peak of a training is that which was measured, within 15 percent, shape by shape."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pellucid import config
from pellucid.counting import (
    UNCERTAINTY,
    Conditions,
    least_memory,
    peak_memory,
    weights_memory,
    writing_memory,
)
from pellucid.counting.peak import pass_of
from pellucid.presets import PRESETS, find, find_objective

_RESULTS = sorted((Path(__file__).parents[2] / "benchmarks" / "results").glob("budget-*.json"))[-1]
MEASURED: dict[str, Any] = json.loads(_RESULTS.read_text(encoding="utf-8"))["shapes"]


@pytest.mark.parametrize("name", MEASURED)
def test_the_peak_that_was_measured_is_counted(name: str) -> None:
    shape = MEASURED[name]
    conditions: dict[str, Any] = dict(shape["conditions"])
    if conditions["longest"] is not None:
        conditions["longest"] = tuple(conditions["longest"])
    estimate = peak_memory(config.run_from_table(shape["config"], find), Conditions(**conditions))
    assert estimate.n_bytes == pytest.approx(shape["peak_bytes"], rel=UNCERTAINTY)


def test_at_least_ten_shapes_were_measured() -> None:
    assert len(MEASURED) >= 10


def nano(**changes: Any) -> config.Run:
    run = PRESETS["nano"]
    model = replace(run.model, vocab_size=4096)
    return replace(run, model=model, training=replace(run.training, **changes))


def test_a_compiled_loss_has_a_second_chunk_where_no_c_code_computes_it() -> None:
    def loss(conditions: Conditions, **changes: Any) -> int:
        rows = peak_memory(nano(**changes), conditions).rows
        return next(row.n_bytes for row in rows if row.part == "loss")

    gpu, cpu = Conditions(on_gpu=True), Conditions()
    chunk = loss(gpu)  # 4 bytes x tokens x vocabulary: one chunk holds all logits
    assert loss(gpu, compile="all") == 2 * chunk
    assert loss(gpu, compile="on") == chunk
    assert loss(cpu, compile="all") == loss(cpu)


def test_weights_in_bfloat16_need_no_copies_and_smaller_gradients() -> None:
    conditions = Conditions(precision="bfloat16")
    unrounded, *rounded = (
        {row.part: row.n_bytes for row in peak_memory(nano(weights=kind), conditions).rows}
        for kind in ("float32", "bfloat16_remainder", "bfloat16_stochastic")
    )
    matrices = 4 * 12 * 128**2
    for rows in rounded:
        assert "casts" not in rows
        assert unrounded["gradients"] - rows["gradients"] == 2 * matrices
    assert [unrounded["weights"] - rows["weights"] for rows in rounded] == [0, 2 * matrices]
    assert unrounded["casts"] == 2 * matrices


def test_the_terms_add_up_and_the_process_is_not_bytes_to_allocate() -> None:
    estimate = peak_memory(nano(), Conditions(process=1000))
    assert estimate.n_bytes == sum(row.n_bytes for row in estimate.rows)
    assert estimate.bytes_to_allocate == estimate.n_bytes - 1000


def test_cutting_a_batch_into_parts_needs_less_and_longer_rows_need_more() -> None:
    undivided = peak_memory(nano(batch_size=64)).n_bytes
    assert peak_memory(nano(batch_size=64, accumulation=8)).n_bytes < undivided
    assert peak_memory(nano(batch_size=64), Conditions(longest=(64, 64))).n_bytes < undivided


def test_what_is_known_before_the_data_is_no_more_than_what_is_known_after() -> None:
    unknown = replace(nano(), model=replace(nano().model, vocab_size=None))
    assert least_memory(unknown).n_bytes == peak_memory(nano()).n_bytes  # its BPE has 4,096
    text = replace(unknown.text, tokenizer=config.Characters())
    assert least_memory(replace(unknown, text=text)).n_bytes < peak_memory(nano()).n_bytes


def test_beams_multiply_what_is_kept() -> None:
    model = nano().model
    one_beam = writing_memory(model, texts=1, beams=1, prompt=8, new_tokens=200)
    many_beams = writing_memory(model, texts=1, beams=99_999, prompt=8, new_tokens=200)
    assert many_beams.bytes_to_allocate > 99_999 * one_beam.rows[1].n_bytes
    assert many_beams.largest.lower == "--beams or the number of prompts"


def test_classes_and_vocabulary_that_only_the_data_tell_are_counted_at_their_least() -> None:
    head = config.ClassificationHead(classes=None, pooling="last", dropout=0.0, bias=True)
    unknown = replace(PRESETS["nano"].model, vocab_size=None, head=head)
    sized = replace(unknown, vocab_size=2, head=replace(head, classes=("no", "yes")))
    assert weights_memory(unknown) == weights_memory(sized)


def test_answers_to_a_prompt_are_counted_once_in_the_batch() -> None:
    objective = find_objective("policy-gradient").objective
    one_pass = pass_of(replace(nano(), objective=objective))
    assert one_pass.sequences == nano().training.batch_size
