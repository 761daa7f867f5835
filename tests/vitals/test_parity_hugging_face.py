"""Models and trainers that are not ours: seen exactly, and changed by no bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.vitals import Sign, Watch, watch
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.model_parts import study
from pellucid.vitals.taps.attention import AttentionTaps
from support.lightning_trainer import quiet_trainer

pytestmark = pytest.mark.parity

VOCAB, TIME, LAYERS = 37, 24, 3


def transformers() -> Any:
    return pytest.importorskip("transformers", reason="transformers is not installed")


def gpt2(**changes: Any) -> nn.Module:
    hf = transformers()
    torch.manual_seed(0)
    return hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=VOCAB, n_positions=64, n_embd=32, n_layer=LAYERS, n_head=4, **changes
        )
    )


def llama(**changes: Any) -> nn.Module:
    hf = transformers()
    torch.manual_seed(0)
    return hf.LlamaForCausalLM(
        hf.LlamaConfig(
            vocab_size=VOCAB,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=LAYERS,
            num_attention_heads=4,
            num_key_value_heads=2,
            **changes,
        )
    )


def gemma2(**changes: Any) -> nn.Module:
    hf = transformers()
    torch.manual_seed(0)
    return hf.Gemma2ForCausalLM(
        hf.Gemma2Config(
            vocab_size=VOCAB,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=LAYERS,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            sliding_window=6,
            **changes,
        )
    )


def bert(**changes: Any) -> nn.Module:
    hf = transformers()
    torch.manual_seed(0)
    return hf.BertForMaskedLM(
        hf.BertConfig(
            vocab_size=VOCAB,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=LAYERS,
            num_attention_heads=4,
            **changes,
        )
    )


MODELS: dict[str, Callable[..., nn.Module]] = {
    "gpt2": gpt2,
    "llama": llama,
    "gemma2": gemma2,
    "bert": bert,
}


def ids_of(step: int, rows: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(step)
    start = torch.randint(VOCAB, (rows, 1), generator=generator)
    return (start + torch.arange(TIME) * 5) % VOCAB


def loop(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 30) -> None:
    model.train()
    torch.manual_seed(1)
    for step in range(steps):
        ids = ids_of(step)
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def by_id(w: Watch) -> dict[str, Sign]:
    return {sign.id: sign for sign in w.signs}


@pytest.mark.parametrize("name", MODELS)
def test_watching_a_hugging_face_model_changes_no_bit(name: str) -> None:
    ends: list[list[Tensor]] = []
    for watched in (False, True):
        model = MODELS[name]()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        if watched:
            with watch(model, optimizer, max_overhead=None) as w:
                loop(model, optimizer)
            found = by_id(w)
        else:
            loop(model, optimizer)
        ends.append([t.clone() for t in model.state_dict().values()] + [torch.get_rng_state()])
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))
    assert {
        "attention.max_logit",
        "attention.entropy",
        "loss.value",
        "loss.rise",
        "predictions.certain",
        "update.kl_forward",
        "gradient.depth_ratio",
        "update.effective_step",
        "stream.rms",
        "units.dead",
        "norm.variance_over_eps",
    } <= set(found)
    # the loop masks nothing, which is right for all but a masked language model
    sick = {"targets.unmasked"} if name == "bert" else set[str]()
    assert {sign.id for sign in found.values() if sign.word != "calm"} == sick
    assert w.missing == {}


@pytest.mark.parametrize(
    ("name", "implementation"),
    [(name, "eager") for name in MODELS]
    # soft caps are no business of the fused kernel
    + [(name, "sdpa") for name in MODELS if name != "gemma2"],
)
def test_attention_is_what_the_model_itself_would_say(name: str, implementation: str) -> None:
    model = MODELS[name](attn_implementation=implementation).double().eval()
    model(input_ids=ids_of(0))
    metrics, taps = AsyncMetrics(), AttentionTaps(study(model))
    with torch.no_grad(), taps.measuring(metrics):
        model(input_ids=ids_of(0))
    metrics.turn(1)
    read = metrics.read()
    assert read is not None
    found = {column.id: (column.places, values) for column, values in read[1]}
    model.set_attn_implementation("eager")
    with torch.no_grad():
        shares = model(input_ids=ids_of(0), output_attentions=True).attentions
    expected: list[float] = []
    for share in shares:
        entropy = torch.special.entr(share).sum(-1)
        seen = (share > 0).sum(-1)
        free = seen > 1
        parts = torch.where(free, entropy / seen.clamp(min=2).log(), 0.0).sum(-1) / free.sum(-1)
        expected += parts.mean(0).tolist()
    places, values = found["attention.entropy"]
    assert len(places) == LAYERS * 4
    assert values == pytest.approx(expected, abs=1e-6)


def test_the_loss_of_a_hugging_face_model_is_taken_from_its_outputs() -> None:
    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with watch(model, optimizer, max_overhead=None) as w:
        loop(model, optimizer, 1)
    start = by_id(w)["loss.value"].value + math.log(VOCAB)
    again = gpt2().train()
    torch.manual_seed(1)
    assert start == pytest.approx(float(again(input_ids=ids_of(0), labels=ids_of(0)).loss.detach()))


def test_gradient_checkpointing_is_not_disturbed() -> None:
    ends: list[list[Tensor]] = []
    for watched in (False, True):
        model = llama()
        model.activation_checkpointing_enable()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        if watched:
            with watch(model, optimizer, max_overhead=None):
                loop(model, optimizer, 12)
        else:
            loop(model, optimizer, 12)
        ends.append([t.clone() for t in model.state_dict().values()])
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


class Rows(torch.utils.data.Dataset[dict[str, Tensor]]):
    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        row = ids_of(index, rows=1)[0]
        return {"input_ids": row, "labels": row}


def trained(
    patch: pytest.MonkeyPatch, folder: Path, callbacks: list[Any], **changes: Any
) -> tuple[Any, nn.Module]:
    hf = transformers()
    pytest.importorskip("accelerate", reason="transformers.Trainer needs accelerate")
    # the folder tests/datasets is not the package datasets that it looks for
    patch.setattr("transformers.trainer.is_datasets_available", lambda: False)
    model = gpt2()
    told: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "max_steps": 24,
        "logging_steps": 4,
        "save_steps": 12,
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        "learning_rate": 1e-3,
    }
    arguments = hf.TrainingArguments(**(told | changes))
    trainer = hf.Trainer(model=model, args=arguments, train_dataset=Rows(), callbacks=callbacks)
    return trainer, model


@pytest.mark.filterwarnings("default")
def test_the_trainer_of_transformers_is_watched_and_changed_by_no_bit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers()
    from pellucid.vitals.huggingface import VitalsCallback

    plain, model = trained(monkeypatch, tmp_path / "plain", [])
    plain.train()
    callback = VitalsCallback(max_overhead=None)
    watched, other = trained(monkeypatch, tmp_path / "watched", [callback])
    watched.train()
    pairs = zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert callback.watch is not None
    assert callback.watch.updates == 24
    found = by_id(callback.watch)
    assert {"attention.max_logit", "gradient.norm", "loss.value", "gradient.clipped"} <= set(found)
    # two parts of an update, whose losses are shares: their sum is near ln V, not half or twice it
    assert -1 < found["loss.value"].value < 0.2
    assert "5 variance       calm" in capsys.readouterr().out
    assert (tmp_path / "watched" / "checkpoint-12" / "vitals.json").is_file()


@pytest.mark.filterwarnings("default")
def test_a_trainer_that_is_resumed_takes_its_windows_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers()
    from pellucid.vitals.huggingface import VitalsCallback

    silent = VitalsCallback(max_overhead=None, show=False)
    first, _ = trained(monkeypatch, tmp_path, [silent], max_steps=12)
    first.train()
    callback = VitalsCallback(max_overhead=None, show=False)
    second, _ = trained(monkeypatch, tmp_path, [callback])
    second.train(resume_from_checkpoint=str(tmp_path / "checkpoint-12"))
    assert callback.watch is not None
    assert callback.watch.updates == 24
    assert len(callback.watch.state_dict()["judge"]["losses"]) == 20


@pytest.mark.filterwarnings("default")
def test_lightning_is_watched(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")
    transformers()
    from pellucid.vitals.lightning import VitalsCallback

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = gpt2()

        def training_step(self, batch: dict[str, Tensor], index: int) -> Tensor:
            return self.model(**batch).loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    ends: list[list[Tensor]] = []
    for watched in (False, True):
        lightning.seed_everything(0)
        callback = VitalsCallback(max_overhead=None, show=False)
        module = Module()
        trainer = quiet_trainer(
            tmp_path, [callback] if watched else [], max_steps=16, accumulate_grad_batches=2
        )
        trainer.fit(module, torch.utils.data.DataLoader(Rows(), batch_size=4))
        ends.append([t.clone() for t in module.state_dict().values()])
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))
    assert callback.watch is not None
    assert callback.watch.updates == 16
    assert -1 < by_id(callback.watch)["loss.value"].value < 0.2
    assert VitalsCallback().state_dict() == {}
