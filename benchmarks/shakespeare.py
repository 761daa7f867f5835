"""Tiny Shakespeare on a CPU: how long until nanoGPT's final validation loss, and how much lower at
equal wall time?

    git clone https://github.com/karpathy/nanoGPT
    python -m benchmarks.shakespeare --nanogpt nanoGPT --text input.txt

nanoGPT runs its documented CPU recipe (`train_shakespeare_char`: block 64, batch 12, 4 layers, 4
heads, 128 wide, 2,000 iterations); its preparation needs `pip install requests`. pellucid runs
`benchmarks/recipes/shakespeare*.toml`. Both train on the first 90% of the text. Both final models
are measured alike: every character of the last 10%, in windows of the model's context that do not
overlap, in nats per character. Wall times are of whole commands: start-up, preparing the text,
evaluations, saving. The recipes were chosen on this text's own validation part, as nanoGPT's was:
this is a race, not an estimate of generalisation.

Comes in: a checkout of nanoGPT and the text. Goes out: a table, and a dated JSON file under
benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.workers import say

HERE = Path(__file__).parent
NANOGPT_FLAGS = [
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

#: Run inside nanoGPT's checkout: the exact loss of its saved model over the validation text.
NANOGPT_LOSS = """
import sys, numpy as np, torch
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
print(total / n)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nanogpt", type=Path, required=True, help="a checkout of nanoGPT")
    parser.add_argument("--text", type=Path, required=True, help="tiny Shakespeare, input.txt")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        results = measure(
            arguments.nanogpt.resolve(), arguments.text.resolve(), arguments.seeds, Path(scratch)
        )
    results |= {"date": time.strftime("%Y-%m-%d"), "machine": machine()}
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    file = folder / f"shakespeare-{results['date']}.json"
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))


def measure(nanogpt: Path, text: Path, seeds: list[int], scratch: Path) -> dict[str, Any]:
    """Both, one after the other; pellucid's short recipes once per seed."""
    content = text.read_text(encoding="utf-8")
    validation = scratch / "validation.txt"
    # nanoGPT's own cut, so that both are measured on the same characters
    validation.write_text(content[int(len(content) * 0.9) :], encoding="utf-8")
    peer = run_nanogpt(nanogpt, text, scratch)
    ours = {
        recipe.stem: [run_pellucid(recipe, text, validation, seed, scratch) for seed in seeds]
        for recipe in sorted((HERE / "recipes").glob("shakespeare*.toml"))
    }
    return {"nanogpt": peer, "pellucid": ours}


def run_nanogpt(checkout: Path, text: Path, scratch: Path) -> dict[str, Any]:
    """nanoGPT's documented recipe, in a copy of its checkout."""
    copy = scratch / "nanogpt"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"))
    shutil.copy(text, copy / "data" / "shakespeare_char" / "input.txt")
    say("nanoGPT: preparing and training")
    call([sys.executable, "data/shakespeare_char/prepare.py"], copy)
    seconds, output = call(
        [sys.executable, "train.py", "config/train_shakespeare_char.py", *NANOGPT_FLAGS], copy
    )
    estimates = [line for line in output.splitlines() if line.startswith("step ")]
    _, exact = call([sys.executable, "-c", NANOGPT_LOSS], copy)
    return {
        "seconds": seconds,
        "nats_per_character": float(exact.splitlines()[-1]),
        "its_own_estimate": estimates[-1],
        "flags": NANOGPT_FLAGS,
    }


def run_pellucid(
    recipe: Path, text: Path, validation: Path, seed: int, scratch: Path
) -> dict[str, Any]:
    """One recipe, as a user would run it."""
    say(f"pellucid: {recipe.stem}, seed {seed}")
    out = scratch / f"{recipe.stem}-{seed}"
    words = ["train", str(text), "--config", str(recipe), "--seed", str(seed), "--out", str(out)]
    seconds, output = call([sys.executable, "-m", "pellucid", *words, "--json"], scratch)
    _, evaluation = call(
        [sys.executable, "-m", "pellucid", "evaluate", str(out), str(validation), "--json"],
        scratch,
    )
    loss = json.loads(evaluation)
    return {
        "seed": seed,
        "seconds": seconds,
        # the text is ASCII: a byte is a character
        "nats_per_character": loss["bits_per_byte"] * math.log(2),
        "steps": json.loads(output)["step"],
    }


def call(words: list[str], folder: Path) -> tuple[float, str]:
    """Wall seconds and standard output of a command."""
    started = time.perf_counter()
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return time.perf_counter() - started, done.stdout


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    peer = results["nanogpt"]
    lines = [
        "| | seconds, whole command | nats per character | time against nanoGPT |",
        "|---|---|---|---|",
        f"| nanoGPT | {peer['seconds']:.1f} | {peer['nats_per_character']:.4f} | 1 |",
    ]
    for name, runs in results["pellucid"].items():
        for run in runs:
            lines.append(
                f"| pellucid {name}, seed {run['seed']} | {run['seconds']:.1f} | "
                f"{run['nats_per_character']:.4f} | {run['seconds'] / peer['seconds']:.2f} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
