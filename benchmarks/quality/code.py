"""Code to race on: the tests of Python's standard library, as two texts.

    python -m benchmarks.quality.code FOLDER

`code.train.txt` and `code.held-out.txt` are written into the folder. The corpus that the presets
were chosen on has none of these files (`pellucid.data.standard_library` leaves out tests), and some
builds of Python come without them. Files are read in the order of their paths; each twentieth is
held out. Files in other encodings than UTF-8 are left out.

Comes in: the Python that runs this. Goes out: two files, and their sizes on the screen.
"""

from __future__ import annotations

import argparse
import sysconfig
from collections.abc import Iterator
from pathlib import Path

#: One file in so many is held out.
HELD_OUT = 20


def sources() -> Iterator[str]:
    """The text of each test file, in the order of their paths.

    Raises:
        SystemExit: this Python came without its tests.
    """
    folder = Path(sysconfig.get_path("stdlib")) / "test"
    paths = sorted(folder.rglob("*.py"))
    if not paths:
        raise SystemExit(f"no tests of the standard library in {folder}: use another build")
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if text.strip():
            yield text


def write_texts(folder: Path) -> dict[str, int]:
    """Both texts; the bytes of each by file name."""
    parts: dict[str, list[str]] = {"code.train.txt": [], "code.held-out.txt": []}
    for number, text in enumerate(sources(), start=1):
        name = "code.train.txt" if number % HELD_OUT else "code.held-out.txt"
        parts[name].append(text)
    folder.mkdir(parents=True, exist_ok=True)
    for name, texts in parts.items():
        (folder / name).write_text("\n".join(texts), encoding="utf-8")
    return {name: (folder / name).stat().st_size for name in parts}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.code", description=__doc__)
    parser.add_argument("folder", type=Path, help="where both texts are written")
    for name, n_bytes in write_texts(parser.parse_args().folder).items():
        print(f"{name}: {n_bytes / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
