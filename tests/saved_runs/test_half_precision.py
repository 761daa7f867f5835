"""Published weights in half precision stay so where asked, with the numbers of float32."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid import config
from pellucid.cli import main
from pellucid.errors import ConfigError
from pellucid.explain import trace
from pellucid.generation import Sampling, continue_ids
from pellucid.generation.decoding import decoder
from pellucid.model import assemble_trained
from support.published import change, retensor, write
from support.published import ids as ids_of

TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def halved(folder: Path, dtype: torch.dtype, family: str = "llama") -> Path:
    write(folder, family)

    def halve(tensors: dict[str, torch.Tensor]) -> None:
        for name in tensors:
            tensors[name] = tensors[name].to(dtype)

    retensor(folder, halve)
    return folder


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox", "gemma2", "bert", "t5"])
@pytest.mark.parametrize("stored", TYPES)
def test_stored_gives_the_numbers_of_float32_bit_for_bit(
    stored: str, family: str, tmp_path: Path
) -> None:
    folder = halved(tmp_path / "dir", TYPES[stored], family)
    wide, half = pellucid.load(folder).model, pellucid.load(folder, weights="stored").model
    ids = ids_of(7)
    with torch.no_grad():
        if family == "t5":
            expected = wide(ids, encoded=wide.encode(ids))
            result = half(ids, encoded=half.encode(ids))
        else:
            expected, result = wide(ids), half(ids)
    assert result.dtype == torch.float32
    assert torch.equal(result, expected)
    for name, parameter in half.named_parameters():
        is_matrix = parameter.ndim == 2 and "positions" not in name and "segment" not in name
        assert parameter.dtype == (TYPES[stored] if is_matrix else torch.float32), name


@pytest.mark.parametrize("architecture", ["LlamaModel", "LlamaForSequenceClassification"])
def test_models_without_token_probabilities_are_read(architecture: str, tmp_path: Path) -> None:
    write(tmp_path / "dir", num_labels=2)
    change(tmp_path / "dir", architectures=[architecture])

    def edit(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["lm_head.weight"]
        if architecture == "LlamaForSequenceClassification":
            tensors["score.weight"] = torch.randn(2, 16)
        tensors.update({name: tensor.bfloat16() for name, tensor in tensors.items()})

    retensor(tmp_path / "dir", edit)
    wide = pellucid.load(tmp_path / "dir").model
    half = pellucid.load(tmp_path / "dir", weights="stored").model
    assert half.token_embedding.weight.dtype == torch.bfloat16
    with torch.no_grad():
        assert torch.equal(half.states(ids_of(5)), wide.states(ids_of(5)))


@pytest.mark.parametrize("weights", TYPES)
@pytest.mark.parametrize("stored", TYPES)
def test_matrices_are_held_in_the_type_that_was_asked_for(
    stored: str, weights: str, tmp_path: Path
) -> None:
    folder = halved(tmp_path / "dir", TYPES[stored])
    model = pellucid.load(folder, weights=weights).model  # type: ignore[arg-type]
    wide = pellucid.load(folder).model
    for name, parameter in wide.named_parameters():
        rounded = parameter.to(TYPES[weights]) if parameter.ndim == 2 else parameter
        assert torch.equal(model.get_parameter(name), rounded), name


def test_a_float32_file_and_a_run_can_be_held_in_float16(tmp_path: Path) -> None:
    write(tmp_path / "dir")
    assert main(["import", str(tmp_path / "dir"), str(tmp_path / "run")]) == 0
    wide = pellucid.load(tmp_path / "dir").model
    for place in ("dir", "run"):
        model = pellucid.load(tmp_path / place, weights="float16").model
        assert model.head_weight.dtype == torch.float16
        assert torch.equal(model.head_weight, wide.head_weight.half())
        stored = pellucid.load(tmp_path / place, weights="stored").model
        assert torch.equal(stored(ids_of(5)), wide(ids_of(5)))


@pytest.mark.parametrize("stored", TYPES)
def test_the_same_text_is_written(stored: str, tmp_path: Path) -> None:
    folder = halved(tmp_path / "dir", TYPES[stored])
    texts = []
    for weights in ("float32", "stored"):
        model = pellucid.load(folder, weights=weights).model  # type: ignore[arg-type]
        steps = continue_ids(model, [[3, 4, 5]], Sampling(temperature=0.0))
        texts.append([next(steps)[0] for _ in range(20)])
    assert texts[0] == texts[1]


def test_compiled_code_reads_bfloat16_in_place_and_not_float16(tmp_path: Path) -> None:
    bfloat = pellucid.load(halved(tmp_path / "b", torch.bfloat16), weights="stored").model
    half = pellucid.load(halved(tmp_path / "h", torch.float16), weights="stored").model
    wide = pellucid.load(tmp_path / "b").model
    if decoder(wide) is None:
        pytest.skip("no C compiler")
    assert decoder(bfloat) is not None
    assert decoder(half) is None


@pytest.mark.parametrize("stored", TYPES)
def test_every_number_can_be_explained(stored: str, tmp_path: Path) -> None:
    folder = halved(tmp_path / "dir", TYPES[stored])
    half = trace(pellucid.load(folder, weights="stored"), ids_of(5)[0])
    wide = trace(pellucid.load(folder), ids_of(5)[0])
    assert half.addresses() == wide.addresses()
    for address in wide.addresses():
        assert torch.equal(half[address].float(), wide[address]), address
    for address in ("L1.H2.q[3, 1]", "L0.ff.up[2, 3]", "logits[2, 7]", "L1.residual[2, 3]"):
        if address.split("[")[0] in wide.addresses():
            assert half.receipt(address).agrees, address


def test_matrices_in_half_precision_are_not_trained(tmp_path: Path) -> None:
    folder = halved(tmp_path / "dir", torch.bfloat16)
    model = pellucid.load(folder, weights="stored").model
    for trained in (
        config.LastLayers(count=1),
        config.LoRA(rank=2, alpha=4.0, dropout=0.0, targets=("query",)),
    ):
        with pytest.raises(ConfigError, match="open it with weights='float32'"):
            assemble_trained(model, trained, seed=0)
    with pytest.raises(ConfigError, match="one of float32, bfloat16, float16, int8, stored"):
        pellucid.load(folder, weights="float8")  # type: ignore[arg-type]


_OWN_BYTES = """
import sys
import torch
import pellucid
model = pellucid.load(sys.argv[1], weights=sys.argv[2]).model
with torch.no_grad():
    model(torch.arange(8)[None])
# pages of its own, without pages of the mapped file
(own,) = (line for line in open("/proc/self/status") if line.startswith("RssAnon"))
print(own.split()[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts pages as Linux does")
def test_stored_weights_stay_in_the_mapped_file(tmp_path: Path) -> None:
    # large compared with the few MB that matrix products in bfloat16 need for themselves
    wide = {"hidden_size": 512, "intermediate_size": 4096, "num_hidden_layers": 12}
    write(tmp_path / "dir", **wide)
    n = sum(p.numel() for p in pellucid.load(tmp_path / "dir").model.parameters())

    def halve(tensors: dict[str, torch.Tensor]) -> None:
        tensors.update({name: tensor.bfloat16() for name, tensor in tensors.items()})

    retensor(tmp_path / "dir", halve)

    def own_bytes(weights: str) -> int:
        words = [sys.executable, "-c", _OWN_BYTES, str(tmp_path / "dir"), weights]
        return 1024 * int(subprocess.run(words, check=True, capture_output=True).stdout)

    # float32 copies take 4 bytes a weight, and the mapped file takes none
    assert own_bytes("float32") - own_bytes("stored") > 3.5 * n
