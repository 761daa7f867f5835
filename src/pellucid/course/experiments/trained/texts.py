"""Claims about tokenizers: length, unknown words, perplexity."""

from __future__ import annotations

import math
from functools import cache

import torch

from pellucid.course.experiments.picture import bars
from pellucid.course.experiments.record import (
    Experiment,
    Question,
    Reading,
    Setting,
    Source,
    lower_bound,
    upper_bound,
)
from pellucid.course.experiments.small_models import (
    bundled_text,
    held_out_loss,
    small_model,
    train_on_text,
)
from pellucid.tokenizers import Tokenizer, train_bytes
from pellucid.tokenizers.train import train_byte_pairs, train_characters, train_words
from pellucid.typed import to_list

_SIZE = 1024


@cache
def _texts() -> tuple[str, str]:
    training, held_out = (
        bytes(to_list(part)).decode("utf-8", "replace") for part in bundled_text()
    )
    return training, held_out


@cache
def _tokenizers() -> dict[str, Tokenizer]:
    training, _ = _texts()
    return {
        "bytes": train_bytes(),
        "characters": train_characters([training]),
        "byte pairs": train_byte_pairs([training], _SIZE),
        "words": train_words([training], _SIZE),
    }


def _lengths(setting: Setting) -> Reading:
    _, held_out = _texts()
    n_bytes = len(held_out.encode())
    lengths: dict[str, float] = {}
    lost_words: dict[str, float] = {}
    for name, tokenizer in _tokenizers().items():
        ids = tokenizer.encode(held_out)
        lengths[name] = len(ids) / n_bytes
        words = tokenizer.decode(ids).split()
        original = held_out.split()
        matches = sum(a == b for a, b in zip(words, original, strict=False))
        lost_words[name] = 1 - matches / len(original)
    unknown = _unknown_share(_tokenizers()["words"], held_out)
    return Reading(
        numbers={
            "tokens per byte, characters": lengths["characters"],
            "tokens per byte, byte pairs": lengths["byte pairs"],
            "tokens per byte, words": lengths["words"],
            "byte pairs over characters": lengths["byte pairs"] / lengths["characters"],
            "share of unknown words among held-out words": unknown,
            "share of words that byte pairs do not give back": lost_words["byte pairs"],
        },
        picture=bars(f"Tokens per byte of held-out text; vocabularies of at most {_SIZE}", lengths),
    )


def _unknown_share(tokenizer: Tokenizer, text: str) -> float:
    """The share of unknown tokens, each a word outside the vocabulary."""
    ids = tokenizer.encode(text)
    unknown = tokenizer.encode("\u16a0\u16a1\u16a2")[0]
    return sum(token == unknown for token in ids) / len(ids)


def _perplexities(setting: Setting) -> Reading:
    steps = 120 if setting.quick else 500
    training, held_out = _texts()
    perplexities: dict[str, float] = {}
    bits: dict[str, float] = {}
    tokenizers = _tokenizers()
    vocabularies = {
        "bytes": tokenizers["bytes"],
        "characters": tokenizers["characters"],
        "512 byte pairs": train_byte_pairs([training], 512),
        "1,024 byte pairs": tokenizers["byte pairs"],
    }
    for name, tokenizer in vocabularies.items():
        parts = [torch.tensor(tokenizer.encode(text)) for text in (training, held_out)]
        model = small_model(vocab_size=tokenizer.vocab_size, context_length=32)
        trained = train_on_text(model, length=32, text=parts[0], setting=setting, steps=steps).model
        loss = held_out_loss(trained, length=32, text=parts[1])
        perplexities[name] = math.exp(loss)
        bits[name] = loss / math.log(2) * len(parts[1]) / len(held_out.encode())
    return Reading(
        numbers={
            "largest perplexity over smallest": max(perplexities.values())
            / min(perplexities.values()),
            "largest bits per byte over smallest": max(bits.values()) / min(bits.values()),
        }
        | {f"perplexity, {name}": value for name, value in perplexities.items()},
        picture=bars("Perplexity per token of one text under four tokenizers", perplexities),
    )


EXPERIMENTS = (
    Experiment(
        name="words-characters-subwords",
        title="Words, characters and subwords",
        description="Cut held-out text by four tokenizers, and count tokens and unknown words.",
        question=Question(
            text="Which tokenizer makes the text shorter than characters and knows every word?",
            choices=("byte pairs", "words", "none"),
        ),
        claim="Characters make long texts, words leave unknowns, and subwords are short without "
        "unknowns.",
        source=Source(
            authors="Sennrich, Haddow and Birch",
            year=2016,
            title="Neural Machine Translation of Rare Words with Subword Units",
            place="section 3.2",
        ),
        concepts=("bits_per_byte", "text.tokenizer.vocab_size"),
        checks=(
            upper_bound("byte pairs over characters", 0.7),
            lower_bound("share of unknown words among held-out words", 0.02),
            upper_bound("share of words that byte pairs do not give back", 0.0),
        ),
        measure=_lengths,
    ),
    Experiment(
        name="perplexity-under-tokenizers",
        title="Perplexity under four tokenizers of the same text",
        description="Train the same model on one text in four vocabularies, and compare perplexity "
        "and bits per byte.",
        question=Question(
            text="One text, four tokenizers. Which number can you compare?",
            choices=("bits per byte", "perplexity per token", "both"),
        ),
        claim="Perplexity per token depends on the tokenizer and cannot be compared across them; "
        "bits per byte can.",
        source=Source(
            authors="Gao et al.",
            year=2020,
            title="The Pile: An 800GB Dataset of Diverse Text for Language Modeling",
            place="section 3.1",
        ),
        concepts=("perplexity", "bits_per_byte"),
        checks=(
            lower_bound("largest perplexity over smallest", 3),
            upper_bound("largest bits per byte over smallest", 1.5),
        ),
        measure=_perplexities,
        seeds=4,
        quick_seeds=3,
    ),
)
