"""A watched training by ranks together: `python -m support.rank_vitals FOLDER STEPS [SETTINGS]`."""

from __future__ import annotations

import sys
from pathlib import Path

import pellucid
from pellucid.vitals import watcher
from support.tiny import ADAMW, TINY, write_text

#: Without dropout, a batch in parts has the numbers of a whole one.
SETTINGS = (
    *TINY,
    *ADAMW,
    "text.held_out=0.2",
    "model.decoder.dropout=0.0",
    "model.decoder.attention.n_kv_heads=2",
)


def main(folder: Path, steps: int, *settings: str) -> None:
    """Train the tiny run into `folder`, with a reading whenever one is due."""
    pellucid.train(
        [write_text(folder.parent / "text")],
        out=folder,
        steps=steps,
        settings=(*SETTINGS, *settings),
        watchers=[watcher(max_overhead=None)],
        show=False,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
