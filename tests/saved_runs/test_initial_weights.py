"""The body of one model as the beginning of another: taken weights, new weights, refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pellucid import config
from pellucid.errors import CheckpointError
from pellucid.model import assemble
from pellucid.saved_runs.initial_weights import fill_body
from support.models import BASE, with_stack

CPU = torch.device("cpu")
HEAD = config.ClassificationHead(classes=("a", "b"), pooling="last", dropout=0.0, bias=True)


def test_the_body_is_taken_and_the_new_head_keeps_its_weights() -> None:
    old, new = assemble(BASE, seed=1), assemble(replace(BASE, head=HEAD), seed=2)
    new_head = new.state_dict()["classifier.weight"].clone()
    assert fill_body(new, old.state_dict(), CPU) == ("classifier.weight", "classifier.bias")
    for name, weight in new.state_dict().items():
        expected = new_head if name == "classifier.weight" else old.state_dict().get(name)
        assert expected is None or torch.equal(weight, expected), name


def test_a_head_with_other_classes_is_new_and_one_with_the_same_is_taken() -> None:
    old = assemble(replace(BASE, head=HEAD), seed=1).state_dict()
    three_classes = assemble(replace(BASE, head=replace(HEAD, classes=("a", "b", "c"))), seed=2)
    assert fill_body(three_classes, old, CPU) == ("classifier.weight", "classifier.bias")
    same_classes = assemble(replace(BASE, head=HEAD), seed=2)
    assert fill_body(same_classes, old, CPU) == ()
    assert torch.equal(same_classes.state_dict()["classifier.weight"], old["classifier.weight"])


def test_a_pooler_may_be_new() -> None:
    new = assemble(replace(BASE, pooler=True), seed=2)
    new_names = fill_body(new, assemble(BASE, seed=1).state_dict(), CPU)
    assert new_names == ("pooler.weight", "pooler.bias")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            replace(BASE, vocab_size=24),
            r"token_embedding.weight is \(24, 16\) there and \(23, 16\)",
        ),
        (with_stack(n_layers=3), r"it has decoder.blocks.2.*, which this one has not"),
        (with_stack(n_layers=1), r"it has no decoder.blocks.1.*, and \d+ more"),
    ],
)
def test_another_body_is_refused_by_what_differs(other: config.Transformer, said: str) -> None:
    tensors = assemble(other, seed=1).state_dict()
    model = assemble(BASE, seed=2)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(CheckpointError, match=said):
        fill_body(model, tensors, CPU)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_a_new_head_that_was_never_drawn_is_refused() -> None:
    with torch.device("meta"):
        model = assemble(replace(BASE, head=HEAD), seed=0)
    with pytest.raises(CheckpointError, match="was not drawn"):
        fill_body(model, assemble(BASE, seed=1).state_dict(), CPU)
