"""A run of ours, exported, is a model of `transformers`, its tokenizer included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid.runs import export_run
from support.reference import quiet
from support.tiny import train_tiny

pytestmark = [
    pytest.mark.parity,
    # not ours to repair
    pytest.mark.filterwarnings("default"),
]

LLAMA = (
    'model.decoder.norm={kind = "RMSNorm", eps = 1e-5}',
    'model.decoder.feed_forward={kind = "GatedMLP", d_ff = 24, activation = "silu", bias = false}',
)


@pytest.mark.parametrize("kind", ["Bytes", "{kind = 'BytePairs', vocab_size = 270}"])
def test_a_trained_run_says_the_same_there(kind: str, tmp_path: Path) -> None:
    transformers: Any = pytest.importorskip("transformers")
    quiet(transformers)
    train_tiny(tmp_path / "run", settings=[*LLAMA, f"text.tokenizer={kind}"])
    assert export_run(tmp_path / "run", tmp_path / "out").family == "llama"
    run = pellucid.load(tmp_path / "run")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    words = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    prompt = run.tokenizer.encode_prompt("the quick")
    batch = words("the quick", return_tensors="pt")
    assert batch["input_ids"][0].tolist() == prompt
    with torch.no_grad():
        got, expected = run.model(torch.tensor([prompt])), model(batch["input_ids"]).logits
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)
    assert (words.bos_token_id, words.eos_token_id) == (
        run.tokenizer.begin_id,
        run.tokenizer.end_id,
    )
    assert model.generation_config.eos_token_id == run.tokenizer.end_id
    assert words.decode(prompt, skip_special_tokens=True) == "the quick"
