"""A run whose matrices are packed while they are read: the same numbers without parameters."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid.errors import ConfigError, NonFiniteError
from pellucid.explain import trace
from pellucid.generation import Sampling, continue_ids
from pellucid.model import Weights, assemble_trained
from pellucid.model.packed.layers import is_packed, unpack
from support.published import ids as ids_of
from support.published import retensor, write

PACKED: tuple[Weights, ...] = ("bfloat16", "int8", "int4")


@pytest.mark.parametrize("weights", PACKED)
@pytest.mark.parametrize("family", ["gpt2", "llama", "run"])
def test_the_numbers_are_those_of_the_same_weights_unpacked(
    weights: Weights, family: str, trained: Path, tmp_path: Path
) -> None:
    folder = trained
    if family != "run":
        folder = tmp_path / "dir"
        write(folder, family)
    wide = pellucid.load(folder, weights=weights).model
    packed = pellucid.load(folder, weights=weights, packed=True).model
    assert is_packed(packed)
    matrices = {f"{name}.weight" for name, m in wide.named_modules() if type(m) is torch.nn.Linear}
    assert not matrices & dict(packed.named_parameters()).keys()
    state = packed.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in wide.state_dict().items())
    ids = ids_of(7)
    with torch.no_grad():
        assert torch.equal(packed(ids), wide(ids))
    prompt, greedy = [ids[0].tolist()], Sampling(temperature=0.0)
    new_tokens, expected = (
        list(islice(continue_ids(m, prompt, greedy), 9)) for m in (packed, wide)
    )
    assert new_tokens == expected
    unpack(packed)
    assert not is_packed(packed)
    for name, parameter in wide.named_parameters():
        assert torch.equal(packed.get_parameter(name), parameter)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which files are mapped")
def test_the_file_is_not_mapped_once_all_is_packed(tmp_path: Path) -> None:
    folder = tmp_path / "dir"
    write(folder, "gpt2")
    run = pellucid.load(folder, weights="int4", packed=True)
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8")
    assert is_packed(run.model)
    assert str(folder) not in mapped


def test_what_needs_parameters_is_refused(trained: Path) -> None:
    run = pellucid.load(trained, weights="int8", packed=True)
    with pytest.raises(ConfigError, match="open it without packed=True"):
        trace(run, ids=[1, 2, 3])
    with pytest.raises(ConfigError, match="open it without packed=True"):
        assemble_trained(run.model, pellucid.config.LastLayers(count=1), seed=0)
    layer = run.model.stack.blocks[0].feed_forward.get_submodule("up")
    with pytest.raises(RuntimeError, match="inference tensor"):
        layer.weight.mul_(2)  # type: ignore[operator, union-attr]


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight"])
def test_a_matrix_that_is_not_finite_is_refused(name: str, tmp_path: Path) -> None:
    write(tmp_path / "dir", "llama")

    def spoil(tensors: dict[str, torch.Tensor]) -> None:
        tensors[name][1, 2] = float("nan")

    retensor(tmp_path / "dir", spoil)
    with pytest.raises(NonFiniteError, match="nan"):
        pellucid.load(tmp_path / "dir", weights="int8", packed=True)


_PEAK = """
import sys
from pellucid.runs import load
load(sys.argv[1], weights="int8", packed=sys.argv[2] == "packed")
(peak,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(peak.split()[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak as Linux tells it")
def test_no_float32_copy_is_ever_in_memory(tmp_path: Path) -> None:
    write(tmp_path / "dir", hidden_size=512, intermediate_size=4096, num_hidden_layers=6)
    n_bytes = (tmp_path / "dir" / "model.safetensors").stat().st_size

    def peak(precision: str) -> int:
        words = [sys.executable, "-c", _PEAK, str(tmp_path / "dir"), precision]
        return 1024 * int(subprocess.run(words, check=True, capture_output=True).stdout)

    assert peak("packed") + n_bytes < peak("with parameters")
