"""TRL's own trainers are watched: what their columns show is named while they train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

WORDS = [f"w{i}" for i in range(60)]


def _tokenizer(hf: Any) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocab = {word: i for i, word in enumerate(["<pad>", "<eos>", "<unk>", *WORDS])}
    plain = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def _text(draws: torch.Generator, low: int, high: int, n: int = 6) -> str:
    ids = torch.randint(low, high, (n,), generator=draws)
    return " ".join(WORDS[int(i)] for i in ids)


def _pairs(*, same: bool) -> list[dict[str, str]]:
    draws = torch.Generator().manual_seed(0)
    rows: list[dict[str, str]] = []
    for _ in range(64):
        chosen = _text(draws, 0, 30)
        rejected = chosen if same else _text(draws, 20, 60)
        rows.append(
            {"prompt": _text(draws, 0, 60), "chosen": " " + chosen, "rejected": " " + rejected}
        )
    return rows


def dpo(folder: Path, patch: pytest.MonkeyPatch, *, same: bool) -> Any:
    """The callback after a training of a tiny model by TRL's DPO trainer."""
    hf = pytest.importorskip("transformers", reason="transformers is not installed")
    trl = pytest.importorskip("trl", reason="trl is not installed")
    datasets = pytest.importorskip("datasets", reason="trl needs datasets")
    from pellucid.diagnosis.huggingface import DiagnosisCallback

    hf.set_seed(0)
    tokenizer = _tokenizer(hf)
    shape = hf.GPT2Config(
        vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=2, n_positions=64,
        bos_token_id=1, eos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    hf.GPT2LMHeadModel(shape).save_pretrained(folder / "start")
    callback = DiagnosisCallback(show=False)
    settings = trl.DPOConfig(
        output_dir=str(folder), per_device_train_batch_size=8, max_steps=16, logging_steps=1,
        learning_rate=1e-4, report_to=[], use_cpu=True, bf16=False, save_strategy="no",
        disable_tqdm=True, gradient_checkpointing=False,
    )  # fmt: skip
    trl.DPOTrainer(
        model=str(folder / "start"),
        args=settings,
        train_dataset=datasets.Dataset.from_list(_pairs(same=same)),
        processing_class=tokenizer,
        callbacks=[callback],
    ).train()
    return callback


def test_pairs_of_one_text_are_named_in_trls_trainer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callback = dpo(tmp_path, monkeypatch, same=True)
    assert "PRF003" in {finding.code for finding in callback.findings}


def test_healthy_preferences_raise_no_alarm_in_trls_trainer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callback = dpo(tmp_path, monkeypatch, same=False)
    assert [f.text() for f in callback.findings if f.severity != "note"] == []
    assert len(callback.watch.state.judge.record.logged["rewards/margins"].points) == 16
