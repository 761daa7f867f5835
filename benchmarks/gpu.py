"""Everything that needs a GPU in one command: first what must be right, then how fast it is.

    python -m benchmarks.gpu --nanogpt nanoGPT
    python -m benchmarks.gpu --nanogpt nanoGPT --ranks 8
    python -m benchmarks.gpu --device cpu --only agree     # a rehearsal without a card

1. tests: those that are skipped without a card.
2. agree: the same few updates on the CPU and on the device, in float32, by preset and objective.
   Losses must agree to 1e-4, or nothing is measured.
3. train, generate, ranks: the GPU tables of docs/performance.md, beside nanoGPT compiled, Hugging
   Face and the card's own limits. 4. page: the tables are written.

Each part has a limit of time; one that fails or takes longer is named at the end. Comes in: flags.
Goes out: dated files under benchmarks/results/, the page, and exit code 1 if a part failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.machine import has_cuda
from benchmarks.workers import say

ROOT = Path(__file__).parent.parent
TOLERANCE = 1e-4
#: What is trained on both: the choices of `pellucid.train`, each with float32 and few updates.
AGREE = {
    "next token": {"preset": "nano"},
    "experts": {"preset": "nano-experts"},
    "masked": {"preset": "nano-encoder"},
    "spans": {"preset": "nano-pair", "objective": "span-corruption"},
    "muon": {"preset": "nano", "settings": ["optimiser.kind=Muon"]},
    "recomputed": {"preset": "nano", "settings": ["training.recompute=full"]},
}
_SHORT = [
    "training.batch_size=4",
    "training.evaluate_tokens=512",
    "text.tokenizer.kind=Bytes",
    "model.context_length=64",
    "training.precision=float32",
    "training.compile=off",
]
#: Seconds that each part may take; together below ten minutes.
LIMITS = {"tests": 90, "agree": 120, "train": 180, "generate": 90, "ranks": 90, "page": 20}


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
    failed: list[str] = []
    for part, command in commands(arguments).items():
        if failed and part != "page":
            say(f"{part}: not run, since {failed[0]} failed")
        elif not is_done(part, command):
            failed.append(part)
    say(f"failed: {', '.join(failed) or 'nothing'}")
    raise SystemExit(bool(failed))


def commands(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """The command of each part that is asked for."""
    device = ["--device", arguments.device]
    nanogpt = [] if arguments.nanogpt is None else ["--nanogpt", str(arguments.nanogpt.resolve())]
    tests = ["tests/generation/test_cuda_graphs.py", "tests/generation/test_finite.py"]
    parts = {
        "tests": ["pytest", "-q", *tests],
        "agree": ["benchmarks.gpu", "--agree", *device],
        "train": ["benchmarks.train", "--shape", "gpt2", *device, *nanogpt],
        "generate": ["benchmarks.generate", *device, *nanogpt],
        "ranks": ["benchmarks.ranks", "--ranks", str(arguments.ranks)],
        "page": ["benchmarks.performance_page"],
    }
    if arguments.ranks == 1:
        del parts["ranks"]
    return {part: words for part, words in parts.items() if part in arguments.only}


def is_done(part: str, words: list[str]) -> bool:
    """Run a part; whether it ended well and in time."""
    say(f"{part}: python -m {' '.join(words)}")
    try:
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=ROOT, timeout=LIMITS[part], check=False
        )
    except subprocess.TimeoutExpired:
        say(f"{part}: stopped after {LIMITS[part]} s")
        return False
    return done.returncode == 0


def differences(device: str) -> list[str]:
    """Train each of `AGREE` on the CPU and on the device; those whose losses do not agree."""
    apart: list[str] = []
    for name, choices in AGREE.items():
        here, there = (losses(choices, where) for where in ("cpu", device))
        gaps = [abs(a - b) for a, b in zip(here, there, strict=True)]
        say(f"{name}: losses on {device} from the CPU's: {', '.join(f'{g:.1e}' for g in gaps)}")
        if not all(gap <= TOLERANCE for gap in gaps):  # one that is no number is too large, too
            apart.append(name)
    return apart


def losses(choices: dict[str, object], device: str) -> list[float]:
    """The losses of a few updates, in nats."""
    import pellucid
    from pellucid.training.events import Event, Logged

    heard: list[Event] = []
    settings = [*_SHORT, *choices.get("settings", [])]
    with tempfile.TemporaryDirectory() as folder:
        pellucid.train(
            [ROOT / "README.md", ROOT / "CHANGELOG.md"],
            out=Path(folder) / "run",
            steps=4,
            device=device,
            show=False,
            observers=[heard.append],
            **{**choices, "settings": settings},
        )
    return [loss for event in heard if isinstance(event, Logged) for loss in event.losses]


if __name__ == "__main__":
    main()
