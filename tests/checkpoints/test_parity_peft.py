"""Adapters against `peft`: what it loads of ours says our numbers, and the other way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid import config
from pellucid.checkpoints.huggingface import read_adapter, write_adapter
from pellucid.model import Transformer, assemble_trained, merged
from support.expert_cases import EXPERT_CASES
from support.reference import CASES, LENGTH, both, quiet, says, token_ids

pytestmark = [
    pytest.mark.parity,
    # not ours to repair
    pytest.mark.filterwarnings("default"),
]

#: Targets of theirs, one per way that layers lie.
THEIRS = {
    "llama": ["q_proj", "v_proj", "down_proj"],
    "qwen2": ["k_proj", "o_proj", "gate_proj"],
    "gemma2": ["q_proj", "up_proj"],
    "gpt2": ["c_attn", "c_proj", "c_fc"],
    "gpt_neox": ["query_key_value", "dense", "dense_h_to_4h"],
    "bert": ["query", "value", "output.dense"],
    "bert without head": ["query", "key", "intermediate.dense"],
    "t5": ["q", "v", "wi"],
    "t5 1.1": ["k", "o", "wi_0"],
    # those that leave as another family
    "phi3 window": ["qkv_proj", "gate_up_proj"],
    "phi3 longrope": ["o_proj", "down_proj"],
    "codegen": ["qkv_proj", "fc_in"],
    "encoder electra, as wide": ["query", "output.dense", "generator_predictions.dense"],
    "encoder ernie": ["query", "transform.dense"],
    "encoder bert-generation, without head": ["value", "intermediate.dense"],
    "falcon, a key for each head, in sequence": ["query_key_value", "dense_4h_to_h"],
}
TARGETS = {"all": ("*",), "some": ("query", "value"), "one": ("*.blocks.1.attention.query",)}
#: The layers that `peft` holds, if not all. In the newest `transformers` experts are one tensor.
#: And `peft` takes a dense layer with a name of theirs for experts.
HELD = {
    **dict.fromkeys(EXPERT_CASES, ("*.attention.*",)),
    **{case: ("*.attention.*",) for case in CASES if case.startswith("deepseek")},
    # the transform of the later head has the older name in an adapter
    "encoder deberta-v2, the later head": ("*.blocks.*",),
}
#: Mixtures without dense layers; `peft` converts the updates of their experts.
CONVERTED = ("mixtral", "mixtral one expert", "ernie4_5_moe, none shared", "qwen3_moe", "olmoe")
#: One block for all layers.
SHARED = tuple(case for case in CASES if case.startswith("encoder albert"))
#: Norms after the layers leave next to nothing of the update of one matrix.
FLAT = ("openai-gpt", "openai-gpt, untied")
LOADED = [
    (case, targets)
    for case in CASES
    for targets in TARGETS
    # a head for classes is trained whole, which an adapter alone does not hold: that is refused
    if not case.startswith("classes") and not (case in (*SHARED, *FLAT) and targets == "one")
]


def close(ours: Tensor, theirs: Tensor) -> None:
    scale = max(1.0, float(theirs.abs().max()))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5 * scale)


def train(model: Any, ask: Any, parameters: list[Tensor]) -> None:
    """A few steps towards random numbers, so that no update is zero."""
    ids = token_ids(3, 20)
    optimiser = torch.optim.Adam(parameters, lr=0.02)
    generator = torch.Generator().manual_seed(7)
    for _ in range(4):
        outputs = ask(model, ids)
        targets = torch.randn(outputs.shape, generator=generator)
        optimiser.zero_grad()
        (outputs - targets).square().mean().backward()
        optimiser.step()


def peft_library() -> Any:
    quiet(pytest.importorskip("transformers"))
    return pytest.importorskip("peft")


def ours_adapted(model: Transformer, lora: config.LoRA, seed: int = 3) -> Transformer:
    assemble_trained(model, lora, seed=seed)
    return model.eval()


def check_loads(case: str, lora: config.LoRA, folder: Path) -> None:
    """What `peft` loads of our trained adapter gives our numbers."""
    peft = peft_library()
    reference_model, base_model, published = both(case, folder / "base")
    ask_theirs, ask_ours = says(case)
    if case.endswith("without head"):  # the head of a discriminator is not read: ours is its body
        reference_model = reference_model.base_model
    model = ours_adapted(base_model, lora)
    train(model, ask_ours, [p for p in model.parameters() if p.requires_grad])
    adapter = folder / "adapter"
    adapter.mkdir()
    family = published.family
    write_adapter(adapter, published.model, lora, model.state_dict(), family=family)
    ids = token_ids(2, LENGTH)
    with torch.no_grad():
        base = ask_theirs(reference_model, ids)
        loaded = peft.PeftModel.from_pretrained(reference_model, adapter).eval()
        expected = ask_ours(model, ids)
        close(ask_theirs(loaded, ids), expected)
        assert not torch.allclose(expected, base, atol=1e-3)
        # merged there is merged here
        close(ask_theirs(loaded.merge_and_unload(), ids), expected)


@pytest.mark.parametrize(("case", "targets"), LOADED)
def test_peft_loads_our_adapter_and_says_our_numbers(
    case: str, targets: str, tmp_path: Path
) -> None:
    target_modules = HELD.get(case, TARGETS["all"]) if targets == "all" else TARGETS[targets]
    check_loads(case, config.LoRA(rank=3, alpha=5.0, dropout=0.1, targets=target_modules), tmp_path)


@pytest.mark.parametrize("case", CONVERTED)
def test_peft_joins_the_updates_of_experts_and_routers(case: str, tmp_path: Path) -> None:
    # peft has no dropout before a tensor with all experts
    check_loads(case, config.LoRA(rank=3, alpha=5.0, dropout=0.0, targets=("*",)), tmp_path)


@pytest.mark.parametrize("case", THEIRS)
def test_we_read_an_adapter_of_peft_and_say_its_numbers(case: str, tmp_path: Path) -> None:
    peft = peft_library()
    reference_model, base_model, published = both(case, tmp_path / "base")
    ask_theirs, ask_ours = says(case)
    settings = peft.LoraConfig(r=2, lora_alpha=7, lora_dropout=0.0, target_modules=THEIRS[case])
    model = peft.get_peft_model(reference_model, settings).eval()
    train(model, ask_theirs, [p for p in model.parameters() if p.requires_grad])
    model.save_pretrained(tmp_path / "adapter")
    read = read_adapter(tmp_path / "adapter", published.model)
    assert (read.lora.rank, read.lora.alpha) == (2, 7.0)
    before = ask_ours(base_model, token_ids(2, LENGTH)).detach()
    adapted = ours_adapted(base_model, read.lora)
    lacks = adapted.load_state_dict(read.tensors, strict=False)
    assert not lacks.unexpected_keys
    assert not [name for name in lacks.missing_keys if ".lora_" in name]
    with torch.no_grad():
        ids = token_ids(2, LENGTH)
        expected = ask_theirs(model, ids)
        close(ask_ours(adapted, ids), expected)
        assert not torch.allclose(before, expected, atol=1e-3)


def test_saved_here_loaded_there_saved_there_and_read_here_is_the_same(tmp_path: Path) -> None:
    peft = peft_library()
    reference_model, base_model, published = both("llama", tmp_path / "base")
    lora = config.LoRA(rank=3, alpha=5.0, dropout=0.0, targets=("query", "down"))
    model = ours_adapted(base_model, lora)
    train(model, says("llama")[1], [p for p in model.parameters() if p.requires_grad])
    (tmp_path / "ours").mkdir()
    write_adapter(tmp_path / "ours", published.model, lora, model.state_dict())
    peft.PeftModel.from_pretrained(reference_model, tmp_path / "ours").save_pretrained(
        tmp_path / "theirs"
    )
    read = read_adapter(tmp_path / "theirs", published.model)
    assert read.lora == lora
    state = model.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in read.tensors.items())


def test_what_peft_merges_is_what_we_merge(tmp_path: Path) -> None:
    peft = peft_library()
    reference_model, base_model, published = both("llama", tmp_path / "base")
    lora = config.LoRA(rank=3, alpha=5.0, dropout=0.0, targets=("*",))
    model = ours_adapted(base_model, lora)
    train(model, says("llama")[1], [p for p in model.parameters() if p.requires_grad])
    (tmp_path / "adapter").mkdir()
    write_adapter(tmp_path / "adapter", published.model, lora, model.state_dict())
    plain = peft.PeftModel.from_pretrained(reference_model, tmp_path / "adapter").merge_and_unload()
    tensors = plain.state_dict()
    for name, tensor in merged(model).items():
        if name in published.places:
            torch.testing.assert_close(tensor, tensors[published.places[name][0]])


def test_switched_off_is_switched_off_there(tmp_path: Path) -> None:
    from pellucid.model import without_adapters

    peft = peft_library()
    reference_model, base_model, published = both("gpt2", tmp_path / "base")
    lora = config.LoRA(rank=3, alpha=5.0, dropout=0.0, targets=("*",))
    model = ours_adapted(base_model, lora)
    train(model, says("gpt2")[1], [p for p in model.parameters() if p.requires_grad])
    (tmp_path / "adapter").mkdir()
    write_adapter(tmp_path / "adapter", published.model, lora, model.state_dict())
    loaded = peft.PeftModel.from_pretrained(reference_model, tmp_path / "adapter").eval()
    ids = token_ids(2, 9)
    with torch.no_grad(), without_adapters(model), loaded.disable_adapter():
        close(model(ids), loaded(ids).logits)
