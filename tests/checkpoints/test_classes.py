"""Published models that tell classes apart: their names, and the refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid import config
from pellucid.checkpoints.huggingface import open_published, own_architecture, write_published
from pellucid.errors import CheckpointError
from pellucid.model import assemble
from pellucid.saved_runs.published import build_published
from support.classes import DECODER, ENCODER, NAMES
from support.models import BASE, ENCODERS, PAIRS

BOTH = {"bert": ENCODER, "llama": DECODER}


def written(folder: Path, model: config.Transformer, **changes: Any) -> Path:
    """A directory of a model; `changes` are made to its `config.json`, None takes one out."""
    folder.mkdir(exist_ok=True)
    tensors = dict(assemble(model, seed=1).named_parameters())
    write_published(folder, model, tensors, {}, problem_type="single_label_classification")
    file = folder / "config.json"
    table = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({name: v for name, v in table.items() if v is not None}))
    return folder


@pytest.mark.parametrize("family", BOTH)
def test_classes_and_weights_come_back_as_they_were(family: str, tmp_path: Path) -> None:
    model = BOTH[family]
    published = open_published(written(tmp_path, model))
    assert published.family == family
    assert isinstance(published.model.head, config.ClassificationHead)
    assert published.model.head.names == NAMES
    model_before, read_model = (
        assemble(model, seed=1).eval(),
        build_published(published, torch.device("cpu")),
    )
    ids = torch.arange(12).reshape(2, 6)
    assert torch.equal(model_before(ids), read_model(ids))
    table = json.loads((tmp_path / "config.json").read_text())
    assert table["id2label"] == {"0": "ham", "1": "spam", "2": "neither"}
    assert table["label2id"] == {"ham": 0, "spam": 1, "neither": 2}
    assert table["architectures"][0].endswith("ForSequenceClassification")


def test_the_rate_of_dropout_is_berts_own_or_that_of_its_layers(tmp_path: Path) -> None:
    for changes, rate in (
        ({}, 0.3),
        ({"classifier_dropout": None, "hidden_dropout_prob": 0.2}, 0.2),
    ):
        head = open_published(written(tmp_path, ENCODER, **changes)).model.head
        assert isinstance(head, config.ClassificationHead)
        assert head.dropout == rate


def test_classes_without_names_are_numbered(tmp_path: Path) -> None:
    two = replace(DECODER, head=replace(DECODER.head, classes=("a", "b")))
    for model, number, names in (
        (two, None, ("LABEL_0", "LABEL_1")),
        (DECODER, 3, ("LABEL_0", "LABEL_1", "LABEL_2")),
    ):
        folder = written(tmp_path, model, id2label=None, label2id=None, num_labels=number)
        head = open_published(folder).model.head
        assert isinstance(head, config.ClassificationHead)
        assert head.names == names


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"problem_type": "regression"}, "problem_type = 'regression' is not handled"),
        ({"id2label": {"0": "LABEL_0"}, "label2id": None}, "a regression, which is not handled"),
        ({"label2id": {"ham": 1, "spam": 0, "neither": 2}}, "label2id contradicts id2label"),
        ({"id2label": {"0": "a", "2": "b"}}, "must name the classes from 0 to 1"),
        ({"id2label": {"0": "a", "1": "b"}, "label2id": None}, "config.json needs"),
        ({"id2label": ["a", "b"]}, "id2label must be of type dict"),
        ({"id2label": {"0": "a", "1": "a", "2": "b"}, "label2id": None}, "must differ"),
        ({"n_labels": 3}, "'n_labels' = 3 is not one that the family llama is known to have"),
    ],
    ids=str,
)
def test_what_is_not_known_or_contradicts_itself_is_refused(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=said):
        open_published(written(tmp_path, DECODER, **changes))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            replace(DECODER, head=replace(DECODER.head, bias=True)),
            "model.head.bias is True, it could only be False",
        ),
        (
            replace(DECODER, head=replace(DECODER.head, pooling="mean")),
            "model.head.pooling is mean, it could only be last",
        ),
        (replace(ENCODER, pooler=False), "model.pooler is False, it could only be True"),
        (
            replace(ENCODER, head=replace(ENCODER.head, pooling="mean")),
            "model.head.pooling is mean, it could only be first",
        ),
    ],
)
def test_a_head_that_no_family_has_is_not_written(
    model: config.Transformer, said: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=said):
        written(tmp_path, model)
    assert not list(tmp_path.iterdir())


def test_a_classifier_without_its_matrix_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, replace(DECODER, head=config.LanguageHead()))
    file = folder / "config.json"
    table = json.loads(file.read_text()) | {"architectures": ["LlamaForSequenceClassification"]}
    file.write_text(json.dumps(table))
    with pytest.raises(CheckpointError, match=r"no tensor for classifier.weight"):
        open_published(folder)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (BASE, "PellucidForCausalLM"),
        (ENCODERS["rotary"], "PellucidForMaskedLM"),
        (PAIRS["original"], "PellucidForConditionalGeneration"),
        (replace(BASE, head=config.NoHead()), "PellucidModel"),
    ],
)
def test_our_own_class_follows_from_the_stacks(model: config.Transformer, name: str) -> None:
    assert own_architecture(model) == name
