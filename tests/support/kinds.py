"""Runs of every kind of model, with random weights: for tests of what each can do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pellucid import config
from pellucid.checkpoints import Checkpoint
from pellucid.config import run_to_toml
from pellucid.model import assemble
from pellucid.presets import find
from pellucid.runs import RunFolder
from pellucid.tokenizers import Tokenizer, tokenizer_from
from support.models import BASE

_TEXT = "the capital of france is paris a cat sat on mat dog runs home now . , ##s ##ing"
WORDS = _TEXT.split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

CLASSES = ("animals", "capitals", "neither")

_DECODER = BASE.decoder
assert _DECODER is not None
_LOOKS_ACROSS = replace(_DECODER, cross_attention=_DECODER.attention)
_MADE = replace(BASE, context_length=24)

#: The model of each kind; the vocabulary is the tokenizer's.
KINDS: dict[str, config.Transformer] = {
    "decoder": _MADE,
    "decoder without head": replace(_MADE, head=config.NoHead()),
    "encoder": replace(
        _MADE,
        encoder=replace(_DECODER, positions=config.Learned()),
        decoder=None,
        embedding=config.Embedding(tied=True, scaled=False, segments=2),
        pooler=True,
    ),
    "encoder without head": replace(_MADE, encoder=_DECODER, decoder=None, head=config.NoHead()),
    "encoder with classes": replace(
        _MADE,
        encoder=replace(_DECODER, positions=config.Learned()),
        decoder=None,
        head=config.ClassificationHead(classes=CLASSES, pooling="first", dropout=0.1, bias=True),
        pooler=True,
    ),
    "decoder with classes": replace(
        _MADE,
        head=config.ClassificationHead(classes=CLASSES, pooling="last", dropout=0.1, bias=False),
    ),
    "encoder-decoder": replace(_MADE, encoder=_DECODER, decoder=_LOOKS_ACROSS),
}


def write_bert_tokenizer(folder: Path, *, masks: bool = True) -> Tokenizer:
    """A WordPiece tokenizer of a few words, as BERT's is."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = [token for token in SPECIAL if masks or token != "[MASK]"]
    (folder / "vocab.txt").write_text("\n".join([*tokens, *WORDS]) + "\n", encoding="utf-8")
    return tokenizer_from(folder / "vocab.txt")


def write_run(
    folder: Path, kind: str, tokenizer: Tokenizer, objective: config.Objective | None = None
) -> Path:
    """The folder of a run of a kind that was never trained: it can be used, and not resumed."""
    model = replace(KINDS[kind], vocab_size=tokenizer.vocab_size)
    run = RunFolder(folder)
    folder.mkdir(parents=True)
    tokenizer.save(run.tokenizer)
    weights = assemble(model, seed=3).state_dict()
    run.shelf.save(0, Checkpoint(weights, {}, {}, {}), best=False, keep=1)
    run_config = replace(find("nano"), model=model)
    run_config = replace(run_config, objective=objective or run_config.objective)
    run.config.write_text(run_to_toml(run_config), encoding="utf-8")
    return folder
