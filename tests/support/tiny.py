"""A run small enough to train in a second, dropout on, several epochs, every interval in play."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pellucid.training import Observer

#: What makes `nano` tiny; also usable as --set flags.
TINY = (
    "text.tokenizer=Bytes",
    "model.context_length=16",
    "model.d_model=16",
    "model.decoder.n_layers=2",
    "model.decoder.dropout=0.1",
    "model.decoder.attention.n_heads=2",
    "model.decoder.attention.n_kv_heads=1",
    "model.decoder.attention.d_head=8",
    "model.decoder.feed_forward.d_ff=32",
    "training.batch_size=4",
    "training.accumulation=2",
    "training.dropout_from_epoch=0.5",
    "training.precision=float32",
    "training.device=cpu",
    "training.log_every=3",
    "training.evaluate_every=4",
    "training.checkpoint_every=4",
    "training.keep_checkpoints=2",
    "training.sentence=the",
)

#: AdamW as flags: some ways of sharing a training cannot have Muon, which is the default.
ADAMW = (
    "optimiser.kind=AdamW",
    "optimiser.learning_rate=1e-3",
    "optimiser.betas=[0.9,0.99]",
    "optimiser.eps=1e-8",
    "optimiser.weight_decay=0.1",
)
#: The command line, with every checkpoint of a sharded run in shares.
SHARING = (
    "import sys, pellucid.training.stepper as stepper; stepper.GATHERED_BYTES = 0; "
    "from pellucid.cli import main; sys.exit(main(sys.argv[1:]))"
)

TEXT = "the quick brown fox jumps over the lazy dog; the cat sat on the mat.\n" * 12


def flags_of(settings: Iterable[str]) -> list[str]:
    """Settings as words of the command line."""
    return [word for setting in settings for word in ("--set", setting)]


def write_text(folder: Path) -> Path:
    """A small text file; its end is the held-out part."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "text.txt"
    file.write_text(TEXT, encoding="utf-8")
    return file


def train_tiny(
    folder: Path,
    *,
    steps: int = 12,
    settings: Sequence[str] = (),
    observers: Sequence[Observer] = (),
) -> None:
    """Train the tiny run into `folder`."""
    import pellucid

    pellucid.train(
        [write_text(folder.parent / "text")],
        out=folder,
        steps=steps,
        settings=[*TINY, "text.held_out=0.2", *settings],
        observers=observers,
        show=False,
    )
