"""Everything that needs a GPU in one command: first what must be right, then how fast it is.

    python -m benchmarks.gpu --nanogpt nanoGPT
    python -m benchmarks.gpu --nanogpt nanoGPT --ranks 8
    python -m benchmarks.gpu --device cpu --only agree     # a rehearsal without a card

1. tests: those that are skipped without a card.
2. agree: the same few updates on the CPU and on the device, in float32 without TensorFloat32, by
   preset and objective, without dropout, whose numbers each device draws itself. Losses must agree
   to 1e-4; to 2e-3 for Muon, which orthogonalises in bfloat16.
3. train, generate, ranks: the GPU tables of docs/performance.md, with nanoGPT compiled, Hugging
   Face and the card's own limits; each checks its own parity first. pellucid trains with and
   without a compiled loss.
4. page: the tables are written.

Each part has a limit of time. One that fails or takes longer is named at the end, and the others
run all the same. Comes in: flags. Goes out: dated files under benchmarks/results/, the page, and
exit code 1 if a part failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.machine import has_cuda
from benchmarks.workers import print_progress

ROOT = Path(__file__).parent.parent
#: Differences of losses in nats, and with Muon: 4e-4 lie between float32 and bfloat16 on a CPU.
TOLERANCE, MUON_TOLERANCE = 1e-4, 2e-3
_ADAMW = [
    "optimiser.kind=AdamW",
    "optimiser.learning_rate=3e-4",
    "optimiser.betas=[0.9,0.95]",
    "optimiser.eps=1e-8",
    "optimiser.weight_decay=0.1",
]
_NO_DROPOUT = {
    "encoder": ["model.encoder.dropout=0"],
    "decoder": ["model.decoder.dropout=0"],
    "both": ["model.encoder.dropout=0", "model.decoder.dropout=0"],
}
#: The trainings that run on both: the choices of `pellucid.train`.
AGREE = {
    "next token": {"preset": "nano", "settings": [*_ADAMW, *_NO_DROPOUT["decoder"]]},
    "experts": {"preset": "nano-experts", "settings": [*_ADAMW, *_NO_DROPOUT["decoder"]]},
    "masked": {"preset": "nano-encoder", "settings": [*_ADAMW, *_NO_DROPOUT["encoder"]]},
    "spans": {
        "preset": "nano-pair",
        "objective": "span-corruption",
        "settings": [*_ADAMW, *_NO_DROPOUT["both"]],
    },
    "recomputed": {
        "preset": "nano",
        "settings": ["training.recompute=full", *_ADAMW, *_NO_DROPOUT["decoder"]],
    },
    "muon": {"preset": "nano", "settings": _NO_DROPOUT["decoder"]},
}
SHORT = [
    "training.batch_size=4",
    "training.evaluate_tokens=512",
    "text.tokenizer.kind=Bytes",
    "model.context_length=64",
    "training.precision=float32",
    "training.compile=off",
]
#: One shape, and so one file of weights; few contestants: each starts and compiles for ten seconds.
_SHAPE = ["--shape", "gpt2-1024"]
_TRAIN = ["--turns", "4", "--seconds", "1"]
_GENERATE = ["--turns", "3", "--only", "Hugging Face, ", "nanoGPT, bfloat16", "pellucid, "]
#: Seconds that each part may take; together below ten minutes.
LIMITS = {"tests": 90, "agree": 90, "train": 150, "generate": 90, "ranks": 90, "page": 20}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nanogpt", type=Path, help="a checkout of nanoGPT; left out without")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--ranks", type=int, default=1, help="cards to train on at once")
    parser.add_argument("--only", nargs="+", choices=LIMITS, default=list(LIMITS))
    parser.add_argument("--agree", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not has_cuda():
        raise SystemExit("torch sees no GPU here: nothing is measured; --device cpu is a rehearsal")
    if arguments.agree:
        raise SystemExit(1 if differences(arguments.device) else 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a part is ended with its processes
    with tempfile.TemporaryDirectory() as weights:
        parts = commands(arguments, weights)
        failed = [part for part, command in parts.items() if not is_done(part, command)]
    print_progress(f"failed: {', '.join(failed) or 'nothing'}")
    raise SystemExit(bool(failed))


def commands(arguments: argparse.Namespace, weights: str) -> dict[str, list[str]]:
    """The command of each part that is asked for; `weights` is a folder that parts share."""
    shared = [*_SHAPE, "--weights", weights]
    device = ["--device", arguments.device]
    nanogpt = [] if arguments.nanogpt is None else ["--nanogpt", str(arguments.nanogpt.resolve())]
    tests = ["tests/generation/test_cuda_graphs.py", "tests/generation/test_finite.py"]
    tests.append("tests/objectives/test_compiled_loss.py")
    parts = {
        "tests": ["pytest", "-q", *tests],
        "agree": ["benchmarks.gpu", "--agree", *device],
        "train": ["benchmarks.train", *shared, *_TRAIN, *device, *nanogpt],
        "generate": ["benchmarks.generate", *shared, *_GENERATE, *device, *nanogpt],
        "ranks": ["benchmarks.ranks", "--ranks", str(arguments.ranks)],
        "page": ["benchmarks.performance_page"],
    }
    if arguments.ranks == 1:
        del parts["ranks"]
    return {part: words for part, words in parts.items() if part in arguments.only}


def is_done(part: str, words: list[str]) -> bool:
    """Run a part; whether it ended well and in time. No process of it is left."""
    print_progress(f"{part}: python -m {' '.join(words)}")
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT, start_new_session=True)
    try:
        code = process.wait(LIMITS[part])
    except subprocess.TimeoutExpired:
        print_progress(f"{part}: stopped after {LIMITS[part]} s")
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    print_progress(
        f"{part}: {'done' if code == 0 else 'failed'} after {time.monotonic() - began:.0f} s"
    )
    return code == 0


def differences(device: str) -> list[str]:
    """Train each of `AGREE` on the CPU and on the device; those whose losses do not agree."""
    names: list[str] = []
    for name, choices in AGREE.items():
        cpu_losses, device_losses = (losses(choices, place) for place in ("cpu", device))
        gaps = [abs(a - b) for a, b in zip(cpu_losses, device_losses, strict=True)]
        print_progress(
            f"{name}: losses on {device} from the CPU's: {', '.join(f'{g:.1e}' for g in gaps)}"
        )
        tolerance = MUON_TOLERANCE if name == "muon" else TOLERANCE
        if not all(gap <= tolerance for gap in gaps):  # one that is no number is too large, too
            names.append(name)
    return names


def losses(choices: dict[str, object], device: str) -> list[float]:
    """The losses of a few updates, in nats."""
    import torch

    import pellucid
    from pellucid.training.events import Event, Logged

    torch.set_float32_matmul_precision("highest")
    events: list[Event] = []
    settings = [*SHORT, *choices.get("settings", [])]
    with tempfile.TemporaryDirectory() as folder:
        pellucid.train(
            [ROOT / "README.md", ROOT / "CHANGELOG.md"],
            out=Path(folder) / "run",
            steps=4,
            device=device,
            show=False,
            observers=[events.append],
            **{**choices, "settings": settings},
        )
    return [loss for event in events if isinstance(event, Logged) for loss in event.losses]


if __name__ == "__main__":
    main()
