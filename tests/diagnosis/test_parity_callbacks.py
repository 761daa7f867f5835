"""Trainers of others say what is behind their signs, and stop where they are asked to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from support.lightning_trainer import quiet_trainer

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

VOCAB = 32


def rows() -> torch.Tensor:
    draws = torch.Generator().manual_seed(0)
    weights = 1.0 / torch.arange(1, VOCAB + 1)
    return torch.multinomial(weights.expand(256, -1), 16, replacement=True, generator=draws)


def hugging_face(folder: Path, rate: float, patch: pytest.MonkeyPatch, **more: Any) -> Any:
    hf = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="transformers.Trainer needs accelerate")
    patch.setattr("transformers.trainer.is_datasets_available", lambda: False)
    from pellucid.diagnosis.huggingface import DiagnosisCallback

    torch.manual_seed(0)
    model = hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=2, n_positions=16)
    )
    settings = hf.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=8,
        max_steps=60,
        learning_rate=rate,
        warmup_steps=5 if rate < 1 else 0,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = hf.Trainer(
        model=model,
        args=settings,
        train_dataset=[{"input_ids": row, "labels": row} for row in rows()],
        callbacks=[DiagnosisCallback(max_overhead=None, **more)],
    )
    trainer.train()
    return trainer


def test_trainer_of_hugging_face_is_told_and_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hugging_face(tmp_path, 1e-3, monkeypatch, action="stop").state.global_step == 60
    assert "what to do:" not in capsys.readouterr().out
    stopped = hugging_face(tmp_path, 30.0, monkeypatch, action="stop")
    assert stopped.state.global_step < 60
    out = capsys.readouterr().out
    assert "OPT00" in out
    assert "what to do:" in out


def test_trainer_of_lightning_is_told_and_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    from pellucid.diagnosis.lightning import DiagnosisCallback
    from pellucid.model import assemble
    from support.faults import mean_loss, next_tokens, tiny

    class Module(lightning.LightningModule):
        def __init__(self, rate: float) -> None:
            super().__init__()
            self.rate = rate
            self.inner: nn.Module = assemble(tiny("nano"), seed=0)

        def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
            return mean_loss(self.inner(batch), next_tokens(batch))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=self.rate)

    def steps(rate: float) -> int:
        trainer = quiet_trainer(
            tmp_path,
            [DiagnosisCallback("inner", action="stop", max_overhead=None)],
            max_steps=60,
            max_epochs=-1,
        )
        trainer.fit(Module(rate), torch.utils.data.DataLoader(list(rows()), batch_size=8))
        return trainer.global_step

    assert steps(1e-3) == 60
    assert "what to do:" not in capsys.readouterr().out
    assert steps(30.0) < 60
    assert "what to do:" in capsys.readouterr().out
