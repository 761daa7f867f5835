"""Rounding with a calibration text: the equations, and that it keeps what a model computes."""

from __future__ import annotations

import pytest
import torch

from pellucid import config
from pellucid.errors import ConfigError
from pellucid.model import narrow
from pellucid.model.packed.calibration import calibrated, moment_groups, second_moments
from pellucid.model.precision import narrowed
from pellucid.model.quantization import matrices
from support.models import BASE, VARIANTS, build


def correlated(columns: int, n: int) -> torch.Tensor:
    return torch.randn(n, columns // 2) @ torch.randn(columns // 2, columns) + torch.randn(n, 1)


def by_the_equations(matrix: torch.Tensor, moments: torch.Tensor) -> torch.Tensor:
    """GPTQ column by column as it is written: H^-1 of the columns that are left, in float64."""
    w, h = matrix.double().clone(), moments.double()
    h = h + 0.01 * h.diagonal().mean() * torch.eye(len(h), dtype=h.dtype)
    rounded = torch.zeros_like(w)
    for j in range(w.shape[1]):
        if j % 32 == 0:
            group = w[:, j : j + 32].float()
            scale = narrowed(group, "int4").scales.float().flatten()[: len(w)].double()
        inverse = torch.linalg.inv(h[j:, j:])
        steps = torch.where(scale == 0, 0, w[:, j] / scale).round().clamp(-8, 7)
        rounded[:, j] = steps * scale
        error = (w[:, j] - rounded[:, j]) / inverse[0, 0]
        w[:, j:] -= error[:, None] * inverse[0]
    return rounded.float()


@pytest.mark.parametrize(("rows", "columns"), [(5, 7), (17, 40), (16, 64)])
def test_error_feedback_is_that_of_the_equations(rows: int, columns: int) -> None:
    torch.manual_seed(0)
    matrix, x = torch.randn(rows, columns), correlated(columns, 200)
    matrix[1] = 0
    before = matrix.clone()
    rounded = calibrated(matrix, x.T @ x).wide()
    assert torch.equal(matrix, before)
    assert torch.equal(rounded[1], before[1])
    torch.testing.assert_close(rounded, by_the_equations(matrix, x.T @ x), rtol=0, atol=1e-6)
    plain = narrowed(matrix, "int4").wide()
    assert (x @ (rounded - matrix).T).norm() < 0.8 * (x @ (plain - matrix).T).norm()


@pytest.mark.parametrize("moments", [torch.zeros(40, 40), torch.randn(40).square().diag()])
def test_uncorrelated_inputs_are_rounded_as_without(moments: torch.Tensor) -> None:
    matrix = torch.randn(20, 40)
    assert torch.equal(calibrated(matrix, moments).wide(), narrowed(matrix, "int4").wide())


def test_moments_are_those_of_the_inputs_of_each_layer() -> None:
    model = build(BASE, double=False)
    ids = torch.randint(5, (3, model.context_length))
    name = "decoder.blocks.0.attention.query.weight"
    inputs: list[torch.Tensor] = []
    layer = model.get_submodule(name.removesuffix(".weight"))
    handle = layer.register_forward_hook(lambda _, x, __: inputs.append(x[0].flatten(0, 1)))
    moments = second_moments(model, [name], ids)
    handle.remove()
    x = torch.cat(inputs)
    torch.testing.assert_close(moments, {name: x.T @ x})
    model(ids)
    assert len(inputs) == 1  # no hook stays behind
    assert moments.keys() == {name}


def test_matrices_are_taken_in_groups_of_at_most_1_gib() -> None:
    columns = {"a": 2**13, "b": 2**13, "c": 2**13, "d": 2**13, "e": 1, "f": 2**15, "g": 1}
    assert list(moment_groups(columns)) == [["a", "b", "c", "d"], ["e"], ["f"], ["g"]]


@pytest.mark.parametrize("described", [BASE, VARIANTS["experts"]], ids=["dense", "experts"])
def test_a_calibrated_model_keeps_its_logits_better(described: config.Transformer) -> None:
    torch.manual_seed(0)
    wide, plain, better = (build(described, double=False).eval() for _ in range(3))
    ids = torch.randint(5, (64, wide.context_length))
    narrow(plain, "int4")
    narrow(better, "int4", calibration=ids)
    assert better.narrow.keys() == plain.narrow.keys()
    for name, packed in better.narrow.items():
        assert torch.equal(packed.wide(), better.get_parameter(name))
    with torch.no_grad():
        logits, coarse, fine = (model(ids) for model in (wide, plain, better))
    assert (fine - logits).norm() < (coarse - logits).norm()


def test_an_expert_that_reads_nothing_is_rounded_without_the_text() -> None:
    plain, better = (build(VARIANTS["experts"], double=False).eval() for _ in range(2))
    ids = torch.zeros(1, 1, dtype=torch.long)
    kinds = matrices(better, "int4")
    read = second_moments(better, [name for name, kind in kinds.items() if kind == "int4"], ids)
    experts = [name for name in kinds if "experts" in name and name not in read]
    assert experts
    narrow(plain, "int4")
    narrow(better, "int4", calibration=ids)
    assert all(torch.equal(plain.get_parameter(n), better.get_parameter(n)) for n in experts)


@pytest.mark.parametrize("weights", ["float32", "bfloat16", "int8"])
def test_other_types_take_no_calibration_text(weights: str) -> None:
    with pytest.raises(ConfigError, match=f"for weights int4, and weights was '{weights}'"):
        narrow(build(BASE, double=False), weights, calibration=torch.zeros(1, 4, dtype=torch.long))  # type: ignore[arg-type]
