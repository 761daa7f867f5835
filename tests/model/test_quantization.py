from __future__ import annotations

import inspect
from dataclasses import replace

import pytest
import torch

from pellucid import config
from pellucid.errors import ConfigError, PellucidError
from pellucid.model import Narrow, narrow
from pellucid.model.precision import narrowed
from support.models import BASE, VARIANTS, build


@pytest.mark.parametrize("columns", [1, 7, 256, 300])
def test_int8_is_at_most_half_a_step_off(columns: int) -> None:
    matrix = torch.randn(5, columns)
    matrix[2] = 0
    packed = narrowed(matrix, "int8")
    assert packed.values.dtype == torch.int8
    assert packed.scales is not None
    assert packed.scales.shape == (5, -(-columns // 256))
    step = packed.scales.repeat_interleave(256, dim=1)[:, :columns]
    assert ((packed.wide() - matrix).abs() <= step * 0.5001).all()
    assert (packed.wide()[2] == 0).all()
    # the largest of a block is exact, but for the last digit
    assert torch.allclose(packed.wide().abs().amax(), matrix.abs().amax())


@pytest.mark.parametrize("shape", [(1, 1), (5, 33), (16, 32), (40, 100)])
def test_int4_errs_less_than_the_scale_of_the_largest_alone(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape)
    matrix[0] = 0
    packed = narrowed(matrix, "int4")
    assert packed.shape == shape
    assert (packed.wide()[0] == 0).all()
    assert torch.equal(packed.wide(torch.bfloat16), packed.wide().bfloat16())
    assert torch.equal(packed.rows(torch.tensor([0, shape[0] - 1])), packed.wide()[[0, -1]])
    groups = torch.nn.functional.pad(matrix, (0, -shape[1] % 32)).view(-1, 32)
    largest = groups.gather(1, groups.abs().argmax(dim=1, keepdim=True)) / -8
    scale = largest.bfloat16().float()
    plain = (groups / scale).nan_to_num().round().clamp(-8, 7) * scale
    assert (packed.wide() - matrix).norm() <= (plain - groups).norm() * 1.0001


def test_numbers_that_4_bits_can_say_are_kept_exactly() -> None:
    matrix = torch.randint(-8, 8, (16, 64)).float()
    matrix[:, ::32] = -8
    assert torch.equal(narrowed(matrix, "int4").wide(), matrix)


@pytest.mark.usefixtures("native")
def test_c_and_torch_fit_4_bits_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = torch.randn(50, 70)
    by_c = narrowed(matrix, "int4")
    wide = by_c.wide()
    monkeypatch.setenv("PELLUCID_NATIVE", "off")
    by_torch = narrowed(matrix, "int4")
    # sums in another order may choose another of two scales that are as good
    assert (by_c.values == by_torch.values).float().mean() > 0.99
    assert torch.equal(wide, by_c.wide())


def test_bfloat16_is_rounded_to_the_nearest() -> None:
    matrix = torch.randn(5, 9)
    assert torch.equal(narrowed(matrix, "bfloat16").wide(), matrix.bfloat16().float())


@pytest.mark.parametrize("weights", ["bfloat16", "int8", "int4"])
@pytest.mark.parametrize("tied", [True, False])
def test_matrices_are_rounded_in_place_and_nothing_else_is(weights: str, tied: bool) -> None:
    model = build(replace(BASE, embedding=config.Embedding(tied=tied, scaled=False)), double=False)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    narrow(model, weights)  # type: ignore[arg-type]
    changed_names = {
        name for name, t in model.state_dict().items() if not torch.equal(t, before[name])
    }
    layers = {f"{name}.weight" for name, m in model.named_modules() if type(m) is torch.nn.Linear}
    assert (
        changed_names
        == model.narrow.keys()
        == layers | ({"token_embedding.weight"} if tied else set())
    )
    for name, packed in model.narrow.items():
        assert torch.equal(packed.wide(), model.get_parameter(name))
        is_head = name in ("head.weight", "token_embedding.weight")
        kind = "int8" if weights == "int4" and is_head else weights
        assert torch.equal(packed.wide(), narrowed(before[name], kind).wide())  # type: ignore[arg-type]


def test_float32_changes_nothing_and_other_words_are_refused() -> None:
    model = build(BASE, double=False)
    before = model.state_dict()["head.weight"].clone()
    narrow(model, "float32")
    assert torch.equal(before, model.state_dict()["head.weight"])
    assert model.narrow == {}
    with pytest.raises(ConfigError, match=r"int3.*float32, bfloat16, float16, int8, stored, int4"):
        inspect.unwrap(narrow)(model, "int3")


@pytest.mark.parametrize("name", ["weight norm", "spectral norm"])
def test_matrices_that_are_computed_are_refused(name: str) -> None:
    with pytest.raises(PellucidError, match=r"computes its matrix.*leave weights at float32"):
        narrow(build(VARIANTS[name], double=False), "int8")


def test_an_exact_matrix_stays_exact() -> None:
    matrix = torch.randint(-127, 128, (4, 256)).float()
    matrix[:, 0] = 127
    assert torch.equal(narrowed(matrix, "int8").wide(), matrix)
    assert isinstance(narrowed(matrix, "int8"), Narrow)
