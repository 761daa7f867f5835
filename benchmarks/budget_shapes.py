"""What `benchmarks.budget` trains: models, objectives, and data of as many tokens as wanted.

Comes in: a text. Goes out: arguments of `pellucid.train`, and files of rows that are cut from the
text. It does not know the measurements.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

ADAMW = (
    "optimiser.kind=AdamW",
    "optimiser.learning_rate=1e-3",
    "optimiser.betas=[0.9,0.99]",
    "optimiser.eps=1e-8",
    "optimiser.weight_decay=0.1",
)
MUON = (
    "optimiser.kind=Muon",
    "optimiser.learning_rate=0.01",
    "optimiser.momentum=0.95",
    "optimiser.weight_decay=0.1",
    "optimiser.newton_schulz_steps=5",
    *(setting.replace("optimiser.", "optimiser.rest.") for setting in ADAMW),
)
SGD = (
    "optimiser.kind=SGD",
    "optimiser.learning_rate=1e-3",
    "optimiser.momentum=0.9",
    "optimiser.l2=0.0",
)
#: A row of a table, cut from a text: what comes next, so many characters of it.
Cut = Callable[[int], str]
Rows = Callable[[Cut, int], dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A training: its settings and other arguments of `pellucid.train`.

    `start` are settings of a model that is trained for one update first. The training starts from
    it or, with `teaches`, learns from it. `rows` cuts a row of data from the text; without it the
    data are text.
    """

    settings: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    start: tuple[str, ...] = ()
    teaches: bool = False
    rows: Rows | None = None
    watched: bool = True
    threads: int | None = None


def decoder(layers: int, width: int, length: int, batch: int) -> tuple[str, ...]:
    """A decoder with heads of 64 features, or of half its width, over bytes."""
    return (*body("decoder", layers, width), *row(length, batch), "text.tokenizer.kind=Bytes")


def body(stack: str, layers: int, width: int) -> tuple[str, ...]:
    """The blocks of a stack."""
    heads = max(1, width // 64)
    attention = f"model.{stack}.attention"
    return (
        f"model.{stack}.n_layers={layers}",
        f"model.d_model={width}",
        f"{attention}.n_heads={heads}",
        f"{attention}.n_kv_heads={heads}",
        f"{attention}.d_head={width // heads}",
        f"model.{stack}.feed_forward.d_ff={4 * width}",
    )


def row(length: int, batch: int) -> tuple[str, ...]:
    """How much is read at a time."""
    return f"model.context_length={length}", f"training.batch_size={batch}"


def answer(cut: Cut, place: int) -> dict[str, str]:
    return {"prompt": cut(50 + place % 10), "answer": cut(150 + place % 20)}


def preference(cut: Cut, place: int) -> dict[str, str]:
    chosen, rejected = cut(120 + place % 20), cut(110 + place % 20)
    return {"prompt": cut(60), "chosen": chosen, "rejected": rejected}


def prompt(cut: Cut, place: int) -> dict[str, str]:
    return {"prompt": cut(40 + place % 8)}


def label(cut: Cut, place: int) -> dict[str, str]:
    return {"text": cut(180 + place % 20), "label": ("yes", "no", "perhaps")[place % 3]}


def pair(cut: Cut, place: int) -> dict[str, str]:
    return {"source": cut(120 + place % 20), "target": cut(110 + place % 20)}


def cut_rows(text: str, rows: Rows, file: Path, n_rows: int = 600) -> None:
    """Write a file of rows that are cut from the text, one after the other."""
    places: Iterator[str] = cycle(" ".join(text.split()))

    def cut(length: int) -> str:
        return "".join(next(places) for _ in range(length))

    lines = [json.dumps(rows(cut, place)) for place in range(n_rows)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def reward(row: dict[str, Any], answer: str) -> float:
    """What an answer is worth: the share of it that is spaces."""
    return answer.count(" ") / max(1, len(answer))


#: Answers are written at each evaluation, to few prompts.
_SIX = ("training.batch_size=6", "training.evaluate_tokens=512")
_REWARD = {"objective": "policy-gradient", "reward": "benchmarks.budget_shapes:reward"}
_SMALL, _MIDDLE = decoder(4, 256, 256, 8), decoder(6, 384, 256, 8)
_PAIR = (*body("encoder", 3, 256), *body("decoder", 3, 256))

_NANO_32 = ("training.batch_size=16", "training.precision=float32")
SHAPES: dict[str, Shape] = {
    "nano": Shape(settings=("training.batch_size=16",)),
    "recompute none": Shape(settings=_NANO_32),
    "masked": Shape(
        settings=(*body("encoder", 4, 256), *row(256, 16), "text.tokenizer.kind=Bytes"),
        arguments={"objective": "mlm"},
    ),
    "spans": Shape(
        settings=("training.batch_size=16",), arguments={"objective": "span-corruption"}
    ),
    "pairs": Shape(
        settings=(*_PAIR, *row(256, 16), "text.tokenizer.kind=Bytes"),
        arguments={"objective": "seq2seq"},
        rows=pair,
    ),
    "classification": Shape(
        settings=(*body("encoder", 4, 256), *row(256, 32), "text.tokenizer.kind=Bytes"),
        arguments={"objective": "classify"},
        rows=label,
    ),
    "many rows": Shape(settings=(*decoder(4, 256, 128, 32), *ADAMW)),
    "no dropout": Shape(settings=(*decoder(4, 256, 128, 16), "model.decoder.dropout=0.0", *ADAMW)),
    "accumulation": Shape(settings=(*decoder(4, 256, 128, 32), "training.accumulation=4", *ADAMW)),
    "recompute all": Shape(settings=(*_NANO_32, "training.recompute=full")),
    "recompute some": Shape(settings=(*_NANO_32, "training.recompute=selective")),
    "bfloat16": Shape(settings=(*decoder(2, 256, 128, 4), "training.precision=bfloat16", *ADAMW)),
    "long": Shape(settings=decoder(2, 128, 2048, 2)),
    "deep and narrow": Shape(settings=decoder(24, 64, 128, 8)),
    "wide and shallow": Shape(settings=(*decoder(2, 1024, 64, 4), *ADAMW)),
    "vocabulary 50,257": Shape(
        settings=(*decoder(2, 256, 128, 4), "model.vocab_size=50257", *ADAMW)
    ),
    "SGD": Shape(settings=(*decoder(6, 512, 64, 4), *SGD)),
    "Muon": Shape(settings=(*decoder(4, 256, 64, 8), *MUON)),
    "Muon, wide": Shape(settings=(*decoder(2, 640, 64, 4), *MUON)),
    "Muon, many layers": Shape(settings=(*decoder(8, 256, 64, 4), *MUON)),
    "two threads": Shape(settings=(*decoder(4, 256, 128, 32), *ADAMW), threads=2),
    "not watched": Shape(settings=("training.batch_size=16",), watched=False),
    "SFT": Shape(
        settings=("objective.packed=false",),
        arguments={"objective": "sft"},
        start=_SMALL,
        rows=answer,
    ),
    "SFT, packed": Shape(arguments={"objective": "sft"}, start=_SMALL, rows=answer),
    "SFT, LoRA": Shape(arguments={"objective": "sft", "lora": 8}, start=_MIDDLE, rows=answer),
    "text, LoRA": Shape(arguments={"objective": "next-token", "lora": 8}, start=_MIDDLE),
    "DPO": Shape(settings=_SIX, arguments={"objective": "dpo"}, start=_SMALL, rows=preference),
    "DPO, LoRA": Shape(
        settings=_SIX, arguments={"objective": "dpo", "lora": 8}, start=_MIDDLE, rows=preference
    ),
    "policy gradient": Shape(
        settings=(
            "training.batch_size=16",
            "training.evaluate_tokens=512",
            "objective.max_new_tokens=48",
        ),
        arguments=_REWARD,
        start=_SMALL,
        rows=prompt,
    ),
    "distillation": Shape(
        settings=decoder(3, 192, 256, 8),
        arguments={"objective": "distill"},
        start=_MIDDLE,
        teaches=True,
    ),
}
