"""nanoGPT's documented recipe for tiny Shakespeare on a CPU, as its README says it.

Comes in: a checkout and a text. Goes out: seconds of its training command, and the exact loss of
the model it keeps. It does not know pellucid.
"""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks.machine import commit
from benchmarks.quality.ours import call
from benchmarks.workers import print_progress

FLAGS = [
    "--device=cpu",
    "--compile=False",
    "--eval_iters=20",
    "--log_interval=1",
    "--block_size=64",
    "--batch_size=12",
    "--n_layer=4",
    "--n_head=4",
    "--n_embd=128",
    "--max_iters=2000",
    "--lr_decay_iters=2000",
    "--dropout=0.0",
]

#: Run inside the checkout: all nats of its saved model over the validation text, every character
#: after the first once, in windows of its context that do not overlap.
LOSS = """
import numpy as np, torch
from model import GPT, GPTConfig
saved = torch.load('out-shakespeare-char/ckpt.pt', map_location='cpu', weights_only=False)
model = GPT(GPTConfig(**saved['model_args']))
model.load_state_dict(saved['model'])
model.eval()
data = torch.from_numpy(np.fromfile('data/shakespeare_char/val.bin', dtype=np.uint16).astype('i8'))
total, n = 0.0, len(data) - 1
with torch.no_grad():
    for start in range(0, n, 64):
        x, y = data[start:min(start + 64, n)], data[start + 1:min(start + 64, n) + 1]
        logits, loss = model(x[None], y[None])
        total += loss.item() * len(y)
print(total)
"""


def cut(text: Path, folder: Path) -> tuple[Path, Path]:
    """The text as nanoGPT cuts it: the first 90% of its characters, and the rest."""
    content = text.read_text(encoding="utf-8")
    parts = content[: int(len(content) * 0.9)], content[int(len(content) * 0.9) :]
    files = folder / "first-90.txt", folder / "last-10.txt"
    for file, part in zip(files, parts, strict=True):
        file.write_text(part, encoding="utf-8", newline="")
    return files


def nanogpt(checkout: Path, text: Path, held_out: Path, scratch: Path, threads: int) -> Any:
    """Its training in a copy of the checkout; preparing its text is not in its time."""
    copy = scratch / "nanogpt"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"))
    shutil.copy(text, copy / "data" / "shakespeare_char" / "input.txt")
    # what prepares its text imports `requests`, which it does not use where the text is there
    (copy / "absent").mkdir()
    (copy / "absent" / "requests.py").touch()
    print_progress("nanoGPT: preparing and training")
    call(
        [sys.executable, "data/shakespeare_char/prepare.py"],
        copy,
        threads,
        {"PYTHONPATH": str(copy / "absent")},
    )
    seconds, output = call(
        [sys.executable, "train.py", "config/train_shakespeare_char.py", *FLAGS], copy, threads
    )
    estimates = [line for line in output.splitlines() if line.startswith("step ")]
    _, exact = call([sys.executable, "-c", LOSS], copy, threads)
    bits = float(exact.splitlines()[-1]) / math.log(2) / len(held_out.read_bytes())
    print_progress(f"nanoGPT: {bits:.4f} bits per byte in {seconds:.1f} s")
    return {
        "name": "nanoGPT",
        "seconds": seconds,
        "bits_per_byte": bits,
        "its_own_estimate": estimates[-1],
        "commit": commit(checkout),
        "flags": FLAGS,
    }
