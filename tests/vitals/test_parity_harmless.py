"""Trainers and models of others: watched or not they end at the same bits, whatever they do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis import check, diagnose, history_of_watch
from pellucid.vitals import Watch, watch
from support.lightning_trainer import quiet_trainer
from support.unharmed import Loop, Say, reports, unharmed

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

VOCAB, TIME = 37, 12
_SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GPT: dict[str, Any] = {"vocab_size": VOCAB, "n_positions": 64, "n_embd": 32, "n_layer": 2}
_BERT = {key: _SIZES[key] for key in list(_SIZES)[:5]} | {"max_position_embeddings": 64}
_T5: dict[str, Any] = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
_T5 |= {"decoder_start_token_id": 0}
_BART: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "encoder_layerdrop": 0.3,
    "max_position_embeddings": 64,
}
#: class, its config, what differs; the first ones always run
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**_SIZES, "sliding_window": 6}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {**_GPT, "n_head": 4}),
    "t5": ("T5ForConditionalGeneration", "T5Config", {**_T5, "vocab_size": VOCAB}),
    "mixtral": (
        "MixtralForCausalLM",
        "MixtralConfig",
        {**_SIZES, "num_local_experts": 4, "output_router_logits": True},
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", _SIZES),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", _SIZES),
    "bert": ("BertForMaskedLM", "BertConfig", _BERT),
    "distilbert": (
        "DistilBertForSequenceClassification",
        "DistilBertConfig",
        {"vocab_size": VOCAB, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    ),
    "bart": ("BartForConditionalGeneration", "BartConfig", {**_BART, "vocab_size": VOCAB}),
    "mamba": (
        "MambaForCausalLM",
        "MambaConfig",
        {"vocab_size": VOCAB, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
    ),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", _BERT),
    "vit": (
        "ViTForImageClassification",
        "ViTConfig",
        {"image_size": 8, "patch_size": 4} | {k: v for k, v in _BERT.items() if k != "vocab_size"},
    ),
}
FIXED = ("gemma2", "gpt2", "t5", "mixtral")
EVERY = [
    pytest.param(name, marks=() if name in FIXED else pytest.mark.nightly, id=name)
    for name in FAMILIES
]


def model_of(family: str, **changes: Any) -> nn.Module:
    hf = pytest.importorskip("transformers", reason="transformers is not installed")
    kind, settings, sizes = FAMILIES[family]
    torch.manual_seed(0)
    return getattr(hf, kind)(getattr(hf, settings)(**{**sizes, **changes})).train()


def batch_of(family: str, step: int, rows: int = 6) -> dict[str, Any]:
    draws = torch.Generator().manual_seed(step)
    ids = torch.randint(3, VOCAB, (rows, TIME), generator=draws)
    if family == "vit":
        pixels = torch.randn(rows, 3, 8, 8, generator=draws)
        return {"pixel_values": pixels, "labels": ids[:, 0] % 2}
    if family == "distilbert":
        return {"input_ids": ids, "labels": ids[:, 0] % 2}
    labels = ids.clone() if family not in ("t5", "bart") else ids[:, :7].clone()
    labels[:, :2] = -100
    return {"input_ids": ids, "labels": labels}


class HuggingFace(Loop):
    """A plain loop over a model of transformers; odd batches among the others."""

    def __init__(self, family: str, **changes: Any) -> None:
        self.family = family
        self.model = model_of(family, **changes)
        self.optimizers = [torch.optim.AdamW(self.model.parameters(), lr=1e-3)]
        self.options: dict[str, Any] = {}

    def loss(self, step: int) -> Tensor:
        batch = batch_of(self.family, step, rows=1 if step == 2 else 6)
        if step == 3 and batch["labels"].ndim == 2:
            batch["labels"] = torch.full_like(batch["labels"], -100)
        return self.model(**batch)[0]

    def update(self, step: int, say: Say) -> None:
        if self.family in ("gpt2", "gemma2", "t5"):
            with torch.no_grad():
                self.model.generate(
                    batch_of(self.family, step)["input_ids"][:, :4], max_new_tokens=3
                )
        super().update(step, say)
        if isinstance(getattr(say, "__self__", None), Watch):
            w: Watch = say.__self__  # type: ignore[union-attr]
            assert "SEE001" not in {each.code for each in diagnose(history_of_watch(w))}


@pytest.mark.parametrize("family", EVERY)
def test_models_of_hugging_face_are_watched_without_harm(family: str) -> None:
    def make() -> Loop:
        return HuggingFace(family)

    with reports() as lines:
        w = unharmed(make)
    assert lines == []
    assert w.guard.off == {}
    assert "gradient.norm" in {sign.id for sign in w.signs}


class Variant(HuggingFace):
    def __init__(self, how: str) -> None:
        super().__init__("gemma2" if how == "masks in a dict" else "gpt2")
        self.how = how
        hf = pytest.importorskip("transformers")
        weights = list(self.model.parameters())
        if how == "checkpointed":
            self.model.gradient_checkpointing_enable()
        if how == "transformers' Adafactor":
            self.optimizers = [hf.optimization.Adafactor(weights)]
        if how == "LBFGS":
            self.optimizers = [torch.optim.LBFGS(weights, lr=0.1, max_iter=2)]
        if how == "several":
            half = len(weights) // 2
            self.optimizers = [torch.optim.SGD(weights[:half], 0.1)]
            self.optimizers += [torch.optim.Adagrad(weights[half:])]
        if how == "compiled":
            self.called: Any = torch.compile(self.model, backend="eager")
        if how == "accelerate":
            accelerate = pytest.importorskip("accelerate")
            # a trainer of another test may have set it up in this process, in another precision
            accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
            self.accelerator = accelerate.Accelerator(cpu=True, mixed_precision="bf16")
            self.model, self.optimizers[0] = self.accelerator.prepare(
                self.model, self.optimizers[0]
            )

    def loss(self, step: int) -> Tensor:
        batch = batch_of("gpt2", step)
        if self.how == "masks in a dict":
            causal = torch.ones(TIME, TIME).tril().bool()[None, None].expand(6, 1, -1, -1)
            batch["attention_mask"] = {"full_attention": causal, "sliding_attention": causal}
        if self.how == "tuples":
            return self.model(**batch, return_dict=False)[0]
        if self.how == "embeddings":
            ids = batch.pop("input_ids")
            return self.model(inputs_embeds=self.model.transformer.wte(ids), **batch).loss
        called = self.called if self.how == "compiled" else self.model
        with torch.autocast("cpu", torch.bfloat16, enabled=self.how == "autocast"):
            return called(**batch)["loss"]

    def update(self, step: int, say: Say) -> None:
        (first, *_) = self.optimizers
        if self.how == "LBFGS":

            def closure() -> Tensor:
                first.zero_grad()
                loss = self.loss(step)
                loss.backward()
                return loss

            say(first.step(closure))
            return
        if self.how == "replaced" and step == 2:
            self.model.transformer.h[1] = copy.deepcopy(self.model.transformer.h[0])
        if self.how == "accelerate":
            loss = self.loss(step)
            self.accelerator.backward(loss)
            say(loss)
            first.step()
            first.zero_grad()
            return
        super().update(step, say)


VARIANTS = ["masks in a dict", "transformers' Adafactor", "accelerate", "checkpointed", "tuples"]
VARIANTS += ["LBFGS", "several", "compiled", "autocast", "embeddings", "replaced"]


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(how, marks=() if i < 3 else pytest.mark.nightly)
        for i, how in enumerate(VARIANTS)
    ],
)
def test_loops_around_models_of_hugging_face_are_watched_without_harm(how: str) -> None:
    with reports() as lines:
        w = unharmed(lambda: Variant(how))
    assert lines == []
    assert w.guard.off == {}


def ends(train: Callable[[list[Any]], nn.Module], *callbacks: Callable[[], Any]) -> list[Any]:
    """Train without and with callbacks; assert the same bits; gives the callbacks."""
    states: list[Any] = []
    used: list[Any] = []
    for several in ((), callbacks):
        used = [make() for make in several]
        torch.manual_seed(3)
        model = train(used)
        states.append(
            ({n: t.clone() for n, t in model.state_dict().items()}, torch.get_rng_state())
        )
    (plain, draws), (watched, its_draws) = states
    assert all(torch.equal(plain[name], watched[name]) for name in plain)
    assert torch.equal(draws, its_draws)
    return used


def arguments(kind: Any, folder: Path, **more: Any) -> Any:
    return kind(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        max_steps=6,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        **more,
    )


def diagnosing(**options: Any) -> Any:
    from pellucid.diagnosis.huggingface import DiagnosisCallback

    return DiagnosisCallback(max_overhead=None, action="stop", **options)


def boom(*_: Any, **__: Any) -> Any:
    raise RuntimeError("on purpose")


@pytest.mark.parametrize("raising", [None, "log", "begin", "report", "all"])
def test_trainer_of_hugging_face_goes_on(
    raising: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hf = pytest.importorskip("transformers", reason="transformers is not installed")
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)
    rows = [{k: v[0] for k, v in batch_of("gpt2", i, rows=1).items()} for i in range(32)]

    def train(callbacks: list[Any]) -> nn.Module:
        model = model_of("gpt2")
        settings = arguments(hf.TrainingArguments, tmp_path, optim="adafactor")
        trainer = hf.Trainer(model=model, args=settings, train_dataset=rows, callbacks=callbacks)
        trainer.train()
        assert trainer.state.global_step == 6
        return model

    if raising == "begin":
        monkeypatch.setattr("pellucid.vitals.huggingface.watch", boom)
    if raising == "report":
        monkeypatch.setattr("pellucid.diagnosis.live_causes.history_of_watch", boom)
    if raising == "all":
        monkeypatch.setattr("pellucid.vitals.loop_watch.Watch.__enter__", boom)
        monkeypatch.setattr("pellucid.vitals.loop_watch.Watch.close", boom)
    with reports() as lines:
        (callback,) = ends(train, lambda: diagnosing(log=boom if raising == "log" else None))
    assert bool(lines) == (raising is not None)
    if raising is None:
        assert callback.watch.updates == 6


def tokenizer() -> Any:
    hf = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = ["<pad>", "<bos>", "<eos>", *"abcdefghijklmnopqrstuvwxyz .,!?'-"][:VOCAB]
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({w: i for i, w in enumerate(words)}, ".")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>"
    )


@pytest.mark.parametrize("kind", ["SFT", "DPO", "GRPO"])
def test_trainers_of_trl_go_on(kind: str, tmp_path: Path) -> None:
    trl = pytest.importorskip("trl", reason="trl is not installed")
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    rows = {
        "SFT": {"text": "abc def."},
        "DPO": {"prompt": "ab", "chosen": " cd.", "rejected": " xyz!"},
        "GRPO": {"prompt": "ab c"},
    }[kind]
    more: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    if kind == "DPO":
        extra = {"ref_model": model_of("gpt2").eval()}
    if kind == "GRPO":
        more = {"num_generations": 2, "max_completion_length": 4}
        extra = {"reward_funcs": lambda completions, **_: [float(len(c) % 3) for c in completions]}

    def train(callbacks: list[Any]) -> nn.Module:
        model = model_of("gpt2")
        settings = arguments(getattr(trl, f"{kind}Config"), tmp_path, bf16=False, **more)
        trainer = getattr(trl, f"{kind}Trainer")(
            model=model,
            args=settings,
            processing_class=tokenizer(),
            train_dataset=datasets.Dataset.from_list([rows] * 16),
            callbacks=callbacks,
            **extra,
        )
        trainer.train()
        return model

    with reports() as lines:
        (callback,) = ends(train, diagnosing)
    assert lines == []
    assert callback.watch.updates == 6


@pytest.mark.parametrize("raising", [False, True])
def test_lightning_goes_on(raising: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    from pellucid.diagnosis.lightning import DiagnosisCallback

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model_of("gpt2")

        def training_step(self, batch: Tensor, index: int) -> Tensor:
            logits = self.inner(input_ids=batch).logits
            return F.cross_entropy(logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten())

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    def train(callbacks: list[Any]) -> nn.Module:
        module = Module()
        trainer = quiet_trainer(tmp_path, callbacks, max_steps=6)
        ids = batch_of("gpt2", 0, rows=32)["input_ids"]
        trainer.fit(module, torch.utils.data.DataLoader(list(ids), batch_size=4))
        assert trainer.global_step == 6
        return module

    if raising:
        monkeypatch.setattr("pellucid.vitals.loop_watch.Watch.step", boom)
        monkeypatch.setattr("pellucid.vitals.loop_watch.Watch.report", boom)
    with reports() as lines:
        ends(train, lambda: DiagnosisCallback("inner", action="stop", max_overhead=None))
    assert bool(lines) == raising


@pytest.mark.parametrize("family", ["t5", pytest.param("bart", marks=pytest.mark.nightly)])
def test_a_check_takes_labels_of_another_length_than_what_is_read(family: str) -> None:
    batch = batch_of(family, 0, rows=4)
    model = model_of(family)
    assert batch["labels"].shape != batch["input_ids"].shape
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    findings = check(model, batch["input_ids"], batch["labels"], optimizer=optimizer)
    assert "SEE001" not in [each.code for each in findings]
    nothing = torch.full_like(batch["labels"], -100)
    assert "LOS011" in [each.code for each in check(model, batch["input_ids"], nothing)]


def test_a_saved_model_of_hugging_face_carries_nothing_of_ours(tmp_path: Path) -> None:
    model = model_of("gpt2")
    with watch(model, torch.optim.SGD(model.parameters(), 0.1)):
        model(**batch_of("gpt2", 0))
        torch.save(model, tmp_path / "model.pt")
        copied = copy.deepcopy(model)
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    for other in (copied, loaded):
        assert not other._forward_hooks
        assert not other._forward_pre_hooks
        assert all(
            torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True)
        )
