from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pellucid.maths import cross_entropy, cross_entropy_grad

FEW_EXAMPLES = settings(max_examples=30)
LOGITS = arrays(np.float64, (3, 5), elements=st.floats(-50, 50))
TARGETS = arrays(np.int64, 3, elements=st.integers(0, 4))


@FEW_EXAMPLES
@given(logits=LOGITS, targets=TARGETS, smoothing=st.sampled_from([0.0, 0.1, 0.9]))
def test_gradient_is_what_was_said_minus_what_came_and_sums_to_zero(
    logits: np.ndarray, targets: np.ndarray, smoothing: float
) -> None:
    gradient = cross_entropy_grad(logits, targets, label_smoothing=smoothing)
    np.testing.assert_allclose(gradient.sum(-1), 0.0, atol=1e-12)
    at_targets = np.take_along_axis(gradient, targets[:, None], axis=-1)
    assert (at_targets <= smoothing + 1e-12).all()


@FEW_EXAMPLES
@given(logits=LOGITS, targets=TARGETS, smoothing=st.sampled_from([0.0, 0.1, 0.9]))
def test_it_is_what_torch_says(logits: np.ndarray, targets: np.ndarray, smoothing: float) -> None:
    torch_losses = torch.nn.functional.cross_entropy(
        torch.from_numpy(logits),
        torch.from_numpy(targets),
        reduction="none",
        label_smoothing=smoothing,
    )
    own_losses = cross_entropy(logits, targets, label_smoothing=smoothing)
    np.testing.assert_allclose(own_losses, torch_losses.numpy(), rtol=1e-9, atol=1e-12)


def test_even_logits_cost_the_logarithm_of_the_number_of_classes() -> None:
    assert cross_entropy(np.zeros(7), np.array(3)) == pytest.approx(math.log(7), rel=1e-15)


def test_z_loss_charges_the_square_of_log_z() -> None:
    logits, target = np.full(4, 2.0), np.array(1)
    extra = cross_entropy(logits, target, z_loss=0.5) - cross_entropy(logits, target)
    assert extra == pytest.approx(0.5 * (2 + math.log(4)) ** 2, rel=1e-14)


def test_a_masked_class_costs_nothing_unless_it_is_the_target() -> None:
    logits = np.array([0.0, 0.0, -np.inf])
    assert cross_entropy(logits, np.array(0)) == pytest.approx(math.log(2), rel=1e-15)
    assert cross_entropy(logits, np.array(2)) == np.inf
    np.testing.assert_allclose(cross_entropy_grad(logits, np.array(0)), [-0.5, 0.5, 0.0])


def test_published_values_are_reproduced(shared_data: Path) -> None:
    values = json.loads((shared_data / "reference-vectors" / "losses.json").read_text())
    keras = values["cross_entropy_keras"]
    own_losses = cross_entropy(np.array(keras["logits"], float), np.array(keras["labels"]))
    np.testing.assert_allclose(own_losses, keras["per_example"], atol=1e-6)
    assert own_losses.mean() == pytest.approx(keras["mean"], abs=1e-4)
    smoothed = keras["label_smoothing_0.1"]
    loss = cross_entropy(
        np.array(smoothed["logits"][0], float), np.array(smoothed["label"]), label_smoothing=0.1
    )
    assert loss == pytest.approx(smoothed["loss"], rel=1e-12)
