"""Every family against its reference: the same numbers from the same files, in and out again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.checkpoints.huggingface import (
    FAMILIES,
    Published,
    open_published,
    write_published,
)
from pellucid.checkpoints.huggingface.names import Layout, shapes_of
from pellucid.model import Transformer
from pellucid.saved_runs.published import build_published
from support.reference import (
    CASES,
    EXACT,
    LENGTH,
    PAIRS,
    both,
    kernel_of,
    quiet,
    reference,
    says,
    token_ids,
)

pytestmark = [
    pytest.mark.parity,
    # not ours to repair
    pytest.mark.filterwarnings("default"),
]

#: `transformers` turns all rows by the longest one's angles, and keeps old keys in its cache.
DYNAMIC = "llama dynamic"
#: The share of one expert is 1 whatever the router says. Theirs is a softmax in float32: rounding.
NO_GRADIENT = {"mixtral one expert": "router.weight"}
DECODERS = [
    case
    for case in CASES
    if not case.startswith(("bert", "encoder", "classes")) and case not in PAIRS and case != DYNAMIC
]


def close(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    """Nowhere further apart than `tolerance` of the largest number there, or of 1."""
    scale = max(1.0, float(theirs.abs().max()))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance * scale)


def test_every_family_has_a_case(tmp_path: Path) -> None:
    classes = {case[0] for case in CASES.values()}
    for family in FAMILIES.values():
        assert classes & set(family.architectures), family.model_type


@pytest.mark.parametrize("case", CASES)
def test_outputs_equal(case: str, tmp_path: Path) -> None:
    reference_model, model, _ = both(case, tmp_path)
    ask_theirs, ask_ours = says(case)
    ids = token_ids(3, LENGTH)
    with torch.no_grad():
        close(ask_ours(model, ids), ask_theirs(reference_model, ids), 1e-5)
        reference_model, model = reference_model.double(), model.double()
        # the norms and angles of the others are float32 inside, a dozen one after another
        tolerance = 1e-10 if case in EXACT else 2e-6
        close(ask_ours(model, ids), ask_theirs(reference_model, ids), tolerance)


@pytest.mark.parametrize("case", [case for case in CASES if case != DYNAMIC])
def test_outputs_equal_beside_a_longer_text(case: str, tmp_path: Path) -> None:
    reference_model, model, _ = both(case, tmp_path)
    ask_theirs, ask_ours = says(case)
    ids = token_ids(2, LENGTH)
    padding = torch.ones(2, LENGTH, dtype=torch.bool)
    padding[1, 21:] = False  # what T5 writes is 20 tokens long
    with torch.no_grad():
        outputs, expected = ask_ours(model, ids, padding), ask_theirs(reference_model, ids, padding)
    close(outputs[0], expected[0], 1e-5)
    close(outputs[1, :20], expected[1, :20], 1e-5)


def layout_in_memory(published: Published, model: Transformer, names: Iterable[str]) -> Layout:
    """Where the parameters are in memory: there the experts of a layer are always one tensor."""
    family, shapes = FAMILIES[published.family], shapes_of(model.state_dict().items())
    names_of_class = family.names_for(published.model)
    for table in ({**names_of_class, **family.other_names}, names_of_class):
        layout = Layout(published.model, table, shapes)
        parts = (layout.tensor_names(name) for name, _ in model.named_parameters())
        if all(part in names for tensor_names in parts for part in tensor_names):
            return layout
    return published.layout


def full_name(published: Published, name: str, model: Any) -> str:
    """The name in the family's table: with the prefix of a model with a head, and the later end."""
    family = FAMILIES[published.family]
    has_prefix = any(name.startswith(family.prefix) for name, _ in model.named_parameters())
    full = name if has_prefix else family.prefix + name
    ends = (end for end in family.older if full.endswith(end))
    return next((full.removesuffix(end) + family.older[end] for end in ends), full)


@pytest.mark.parametrize("case", CASES)
def test_gradients_equal_parameter_by_parameter(case: str, tmp_path: Path) -> None:
    reference_model, model, published = both(case, tmp_path)
    reference_model, model = reference_model.double(), model.double()
    ask_theirs, ask_ours = says(case)
    ids = token_ids(3, 20 if case in PAIRS else 16)
    expected, outputs = ask_theirs(reference_model, ids), ask_ours(model, ids)
    weight = torch.randn(
        outputs.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2)
    )
    (expected * weight).sum().backward()
    (outputs * weight).sum().backward()
    gradients = {
        full_name(published, name, reference_model): parameter.grad
        for name, parameter in reference_model.named_parameters()
    }
    n_compared = 0
    layout = layout_in_memory(published, model, gradients)
    for name, parameter in model.named_parameters():
        source = layout.source(name)
        # a head may have another name in memory than in files
        head = reference_model.get_output_embeddings()
        expected_gradient = gradients.get(source.name, None if head is None else head.weight.grad)
        if source.spread:
            expected_gradient = torch.stack([gradients[part] for part in layout.tensor_names(name)])
        expected_gradient = (
            expected_gradient
            if source.expert is None or expected_gradient is None
            else expected_gradient[source.expert]
        )
        if (
            expected_gradient is None or parameter.grad is None
        ):  # a head that these outputs do not use
            assert expected_gradient is None
            assert parameter.grad is None
            continue
        if case in NO_GRADIENT and name.endswith(NO_GRADIENT[case]):
            assert parameter.grad.abs().max() < 1e-14
            assert expected_gradient.abs().max() < 1e-5
            continue
        n_compared += 1
        expected_here = layout.take(name, expected_gradient)
        # biases of keys change no softmax: what they get is rounding
        close_by = 1e-5 * max(1e-6, float(expected_gradient.abs().max()))
        assert torch.allclose(parameter.grad, expected_here, rtol=1e-5, atol=close_by), name
    assert n_compared > 10


@pytest.mark.parametrize("case", DECODERS)
def test_greedy_text_with_a_cache_equals(case: str, tmp_path: Path) -> None:
    from pellucid.generation import Sampling, continue_ids

    reference_model, model, _ = both(case, tmp_path)
    prompt = token_ids(1, 4)
    reference_ids = reference_model.generate(
        prompt, max_new_tokens=20, do_sample=False, pad_token_id=0, eos_token_id=None
    )[0, 4:].tolist()
    for cache in (True, False):
        steps = continue_ids(model, prompt.tolist(), Sampling(temperature=0.0), cache=cache)
        assert [next(steps)[0] for _ in range(20)] == reference_ids


@pytest.mark.parametrize("case", PAIRS)
def test_encoder_decoder_writes_the_same_with_a_cache(case: str, tmp_path: Path) -> None:
    reference_model, model, published = both(case, tmp_path)
    source = token_ids(1, 9)
    # without a cache: theirs has as many layers as the encoder of a T5
    expected = reference_model.generate(
        source, max_new_tokens=12, do_sample=False, eos_token_id=None, use_cache=False
    )[0]
    with torch.no_grad():
        encoded, caches = model.encode(source), model.new_caches()
        new_ids = [published.attributes["decoder_start_token_id"]]
        for _ in range(12):
            logits = model(torch.tensor([new_ids[-1:]]), caches, encoded=encoded)
            new_ids.append(int(logits[0, -1].argmax()))
    assert new_ids == expected.tolist()


@pytest.mark.parametrize("case", ["t5", "t5 1.1"])
def test_cross_attention_gives_the_same(case: str, tmp_path: Path) -> None:
    reference_model, model, _ = both(case, tmp_path)
    ids, outputs = token_ids(2, 20), dict[str, Tensor]()

    def keep(name: str) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            outputs[name] = output[0] if isinstance(output, tuple) else output

        return hook

    reference_model.decoder.block[1].layer[1].EncDecAttention.register_forward_hook(keep("theirs"))
    model.get_submodule("decoder.blocks.1.cross_attention").register_forward_hook(keep("ours"))
    ask_theirs, ask_ours = says(case)
    with torch.no_grad():
        ask_theirs(reference_model, ids)
        ask_ours(model, ids)
    close(outputs["ours"], outputs["theirs"], 1e-5)


def written(folder: Path, ours: Transformer, published: Any) -> Path:
    folder.mkdir()
    pad = {
        name: published.attributes[name]
        for name in ("pad_token_id",)
        if name in published.attributes
    }
    write_published(folder, published.model, ours.state_dict(), pad)
    return folder


def is_sinusoid(case: str, name: str) -> bool:
    return case.startswith("pegasus") and name.endswith("embed_positions.weight")


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_loads_there_and_says_the_same(case: str, tmp_path: Path) -> None:
    transformers: Any = pytest.importorskip("transformers")
    quiet(transformers)
    _, model, published = both(case, tmp_path / "theirs")
    folder = written(tmp_path / "ours", model, published)
    (name,) = json.loads((folder / "config.json").read_text())["architectures"]
    # not every version's fused attention has soft caps
    reloaded, info = getattr(transformers, name).from_pretrained(
        folder, output_loading_info=True, attn_implementation=kernel_of(case)
    )
    # Pegasus computes its sinusoids, and yet lists them
    assert not {name for name in info["missing_keys"] if not is_sinusoid(case, name)}
    assert not info["mismatched_keys"]
    ask_theirs, ask_ours = says(case)
    ids = token_ids(2, LENGTH)
    with torch.no_grad():
        close(ask_theirs(reloaded.eval(), ids), ask_ours(model, ids), 1e-5)


@pytest.mark.parametrize("case", CASES)
def test_tensors_are_the_same_bytes_after_in_out_in(case: str, tmp_path: Path) -> None:
    _, model, published = both(case, tmp_path / "theirs")
    republished = open_published(written(tmp_path / "ours", model, published))
    assert republished.model == published.model
    for name, parameter in build_published(republished, torch.device("cpu")).named_parameters():
        assert torch.equal(parameter, model.get_parameter(name)), name


@pytest.mark.parametrize("case", ["llama 3 scaling", "llama yarn", "gpt_neox", "qwen3"])
def test_both_spellings_of_rotary_positions_are_read(case: str, tmp_path: Path) -> None:
    model = reference(case)
    model.save_pretrained(tmp_path)
    read = open_published(tmp_path).model
    file = tmp_path / "config.json"
    table = json.loads(file.read_text())
    if "rope_parameters" in table:  # new: write the old one
        new = table.pop("rope_parameters")
        table["rope_theta"] = new.pop("rope_theta")
        if "partial_rotary_factor" in new:
            table["rotary_pct"] = new.pop("partial_rotary_factor")
        table["rope_scaling"] = None if new["rope_type"] == "default" else new
    else:  # old: write the new one
        new = table.pop("rope_scaling") or {"rope_type": "default"}
        table["rope_parameters"] = {**new, "rope_theta": table.pop("rope_theta")}
        if "rotary_pct" in table:
            table["rope_parameters"]["partial_rotary_factor"] = table.pop("rotary_pct")
    file.write_text(json.dumps(table))
    assert open_published(tmp_path).model == read


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_read_as_float32(dtype: torch.dtype, tmp_path: Path) -> None:
    reference_model = reference("llama").to(dtype)
    reference_model.save_pretrained(tmp_path)
    model = build_published(open_published(tmp_path), torch.device("cpu"))
    for name, parameter in model.named_parameters():
        assert parameter.dtype == torch.float32, name
    assert torch.equal(
        model.token_embedding.weight, reference_model.model.embed_tokens.weight.float()
    )


def test_shards_are_read_as_one(tmp_path: Path) -> None:
    reference_model = reference("gpt2")
    reference_model.save_pretrained(tmp_path, max_shard_size="8KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    model = build_published(open_published(tmp_path), torch.device("cpu"))
    with torch.no_grad():
        close(model(token_ids(2, 9)), reference_model(token_ids(2, 9)).logits, 1e-5)


def test_names_without_the_prefix_and_with_old_ends_are_read(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    reference_model = reference("bert without head")
    reference_model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in load_file(file).items()
    }
    assert not any(name.startswith("bert.") for name in old)
    save_file({**old, "embeddings.position_ids": torch.arange(LENGTH)[None]}, file)
    published = open_published(tmp_path)
    assert list(published.ignored_tensors) == ["embeddings.position_ids"]
    model = build_published(published, torch.device("cpu"))
    with torch.no_grad():
        states = model.hidden_states(token_ids(2, 9))
        close(states, reference_model(token_ids(2, 9)).last_hidden_state, 1e-5)
