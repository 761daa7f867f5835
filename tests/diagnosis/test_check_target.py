"""Runs of every kind of objective are checked with the data that they learn from, as it is made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pellucid.diagnosis import check_named, declare
from pellucid.diagnosis.check import check_examples
from pellucid.diagnosis.training_batch import build_training_batch
from pellucid.errors import PellucidError
from pellucid.runs import load
from support.labelled import train_labelled, write_labelled
from support.life import pretrain, tune, write_rows
from support.pairs import train_pairs, words, write_pairs
from support.tiny import write_text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def base(place: Path) -> Path:
    return pretrain(place / "base", steps=2)


@pytest.mark.parametrize("objective", ["sft", "dpo"])
def test_healthy_run_that_was_tuned_is_passed_with_its_rows(
    objective: str, place: Path, base: Path
) -> None:
    rows = write_rows(place / "rows")
    tune(place / objective, objective, base, rows, steps=1)
    for data in (None, rows):
        found = check_named(str(place / objective), data, declared=declare()).findings
        assert [each.text() for each in found] == []


def test_healthy_classifier_is_passed_with_its_rows(place: Path) -> None:
    rows = write_labelled(place / "labelled.tsv")
    train_labelled(place / "classes", rows, steps=1)
    for data in (None, rows):
        found = check_named(str(place / "classes"), data, declared=declare()).findings
        assert [each.text() for each in found] == []


def test_pairs_are_checked_with_what_the_encoder_is_given(place: Path) -> None:
    rows = write_pairs(place / "pairs.tsv", [(word, word[::-1]) for word in words(200)])
    train_pairs(place / "pair", rows, steps=1)
    found = check_named(str(place / "pair"), rows, declared=declare()).findings
    assert [each.text() for each in found] == []
    run = load(place / "pair")
    data = build_training_batch(run, [str(rows)]).examples
    assert data.source is not None
    moved = replace(data, labels=data.ids.clone())
    assert "LOS001" in {each.code for each in check_examples(run.model, moved)}
    late = torch.full_like(data.ids, -100)
    late[:, :-2] = data.ids[:, 2:]
    assert "LOS002" in {each.code for each in check_examples(run.model, replace(data, labels=late))}
    summed = check_examples(
        run.model,
        data,
        loss=lambda logits, labels: torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), reduction="sum"
        ),
    )
    assert "LOS006" in {each.code for each in summed}


def test_preset_is_checked_with_a_text_and_a_tokenizer_of_its_own(tmp_path: Path) -> None:
    text = write_text(tmp_path)
    file = tmp_path / "config.toml"
    file.write_text(
        '[text.tokenizer]\nkind = "Bytes"\n[model]\ncontext_length = 32\n'
        "[model.decoder]\nn_layers = 2\n[training]\nbatch_size = 8\n"
    )
    checked = check_named(str(file), text, declared=declare())
    assert [each.text() for each in checked.findings] == []
    assert "tokens of" in checked.target


def test_data_in_the_place_of_the_model_are_named_as_data(tmp_path: Path) -> None:
    data = tmp_path / "my.txt"
    data.write_text("the cat sat\n", "utf-8")
    with pytest.raises(PellucidError, match=r"is no config file .* pellucid check nano .*my\.txt"):
        check_named(str(data), declared=declare())


def test_preset_that_learns_from_columns_asks_for_a_run(tmp_path: Path) -> None:
    with pytest.raises(PellucidError, match="learns from rows of columns"):
        check_named("transformer-base", write_text(tmp_path), declared=declare())


def test_rate_that_is_too_high_for_any_training_is_said_of_a_config(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        'base = "gpt2"\n[model]\ncontext_length = 32\nd_model = 48\n[model.decoder]\nn_layers = 2\n'
        "[optimiser]\nlearning_rate = 1.0\n"
    )
    findings = check_named(str(file), declared=declare()).findings
    assert "OPT005" in {each.code for each in findings}
    assert all(each.severity == "note" for each in findings if each.code.startswith("OPT"))
