"""A run of ours, exported, is a model of `transformers`, its tokenizer included."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid import config
from pellucid.checkpoints import Checkpoint
from pellucid.config import run_to_toml
from pellucid.model import assemble
from pellucid.presets import find
from pellucid.runs import RunFolder, classify, export_run, import_model, load
from pellucid.tokenizers import Tokenizer, train_bytes
from support.classes import DECODER, ENCODER
from support.kinds import write_bert_tokenizer
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
        own_logits, expected = run.model(torch.tensor([prompt])), model(batch["input_ids"]).logits
    torch.testing.assert_close(own_logits, expected, rtol=0, atol=1e-5)
    assert (words.bos_token_id, words.eos_token_id) == (
        run.tokenizer.begin_id,
        run.tokenizer.end_id,
    )
    assert model.generation_config.eos_token_id == run.tokenizer.end_id
    assert words.decode(prompt, skip_special_tokens=True) == "the quick"


TEXTS = ("the cat sat on the mat now.", "a dog")


def written(
    place: Path, model: config.Transformer, words: Tokenizer, objective: config.Objective
) -> Path:
    """The folder of a run that was never trained."""
    place.mkdir()
    folder = RunFolder(place)
    words.save(folder.tokenizer)
    model = replace(model, vocab_size=words.vocab_size, context_length=32)
    weights = assemble(model, seed=3).state_dict()
    folder.shelf.save(0, Checkpoint(weights, {}, {}, {}), best=False, keep=1)
    run = replace(find("nano"), model=model, objective=objective)
    folder.config.write_text(run_to_toml(run), encoding="utf-8")
    return place


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
@pytest.mark.parametrize("several", [False, True])
def test_a_classifier_names_the_same_classes_there_and_after_coming_back(
    kind: str, several: bool, tmp_path: Path
) -> None:
    transformers: Any = pytest.importorskip("transformers")
    quiet(transformers)
    words = write_bert_tokenizer(tmp_path / "words") if kind == "encoder" else train_bytes()
    model = ENCODER if kind == "encoder" else DECODER
    objective = config.Classification(label_smoothing=0.0, multi_label=several)
    run = written(tmp_path / "run", model, words, objective)
    export_run(run, tmp_path / "out")
    pipeline = transformers.pipeline("text-classification", str(tmp_path / "out"), top_k=None)
    import_model(tmp_path / "out", tmp_path / "again")
    for text in TEXTS:
        expected_shares = {
            class_score["label"]: class_score["score"] for class_score in pipeline([text])[0]
        }
        for place in (run, tmp_path / "out", tmp_path / "again"):
            (classified,) = classify(load(place), text)
            shares = {share.name: share.probability for share in classified.shares}
            assert shares == pytest.approx(expected_shares, abs=1e-5)
            assert load(place).config.objective == objective


def test_a_published_gpt2_classifier_is_handed_the_same_tokens(tmp_path: Path) -> None:
    transformers: Any = pytest.importorskip("transformers")
    tokenizers: Any = pytest.importorskip("tokenizers")
    quiet(transformers)
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    symbols = {symbol: place for place, symbol in enumerate([*alphabet, "<|endoftext|>"])}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=symbols, merges=[]))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    )
    words.save_pretrained(tmp_path)
    settings = transformers.GPT2Config(
        vocab_size=257, n_positions=32, n_embd=16, n_layer=2, n_head=4, initializer_range=0.4,
        num_labels=3, bos_token_id=256, eos_token_id=256,
    )  # fmt: skip
    torch.manual_seed(0)
    reference_model = transformers.GPT2ForSequenceClassification(settings).eval()
    reference_model.save_pretrained(tmp_path)
    run = load(tmp_path)
    for text in TEXTS:
        with torch.no_grad():
            expected = reference_model(**words(text, return_tensors="pt")).logits[0].softmax(dim=0)
        (classified,) = classify(run, text)
        shares = {share.name: share.probability for share in classified.shares}
        assert [shares[f"LABEL_{n}"] for n in range(3)] == pytest.approx(
            expected.tolist(), abs=1e-5
        )
