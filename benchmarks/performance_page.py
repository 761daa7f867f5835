"""The tables and plots of docs/performance.md, from the newest results of each benchmark.

    python -m benchmarks.performance_page

Between `<!-- name -->` and `<!-- end -->` the page holds what the results say; the prose around it
is written by hand. Where a benchmark has no results yet, the page says so, and the command.

Comes in: the dated JSON files under benchmarks/results/. Goes out: docs/performance.md and the
plots under docs/performance/. It measures nothing.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.workers import print_progress

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True)
class Section:
    """What its files are called before the date, who makes Markdown of them, and the command."""

    results: str
    markdown: str
    command: str


#: By the mark in the page.
SECTIONS = {
    "train": Section(
        "train-cpu", "benchmarks.train_table:tables", "benchmarks.train --nanogpt nanoGPT"
    ),
    "train-amx": Section(
        "train-amx", "benchmarks.train_table:tables", "benchmarks.train --nanogpt nanoGPT"
    ),
    "train-cuda": Section(
        "train-cuda",
        "benchmarks.train_table:tables",
        "benchmarks.train --nanogpt nanoGPT --device cuda",
    ),
    "loss": Section("loss", "benchmarks.loss:tables", "benchmarks.loss"),
    "loss-settled": Section("loss-settled", "benchmarks.loss:tables", "benchmarks.loss --settled"),
    "attention-kernels": Section(
        "attention-kernels", "benchmarks.attention_kernels:table", "benchmarks.attention_kernels"
    ),
    "attention-kernels-settled": Section(
        "attention-kernels-settled",
        "benchmarks.attention_kernels:table",
        "benchmarks.attention_kernels --settled",
    ),
    "elementwise": Section("elementwise", "benchmarks.elementwise:table", "benchmarks.elementwise"),
    "generate": Section(
        "generate", "benchmarks.generate:table", "benchmarks.generate --nanogpt nanoGPT"
    ),
    "generate-512": Section(
        "generate-512",
        "benchmarks.generate:table",
        "benchmarks.generate --prompt 512 --new-tokens 16 --llama-cpp llama.cpp",
    ),
    "generate-cuda": Section(
        "generate-cuda",
        "benchmarks.generate:table",
        "benchmarks.generate --nanogpt nanoGPT --device cuda",
    ),
    "quality-nanogpt": Section(
        "quality-nanogpt",
        "benchmarks.quality.page:table",
        "benchmarks.quality --nanogpt nanoGPT --text input.txt",
    ),
    "quality-gpt2": Section(
        "quality-gpt2",
        "benchmarks.quality.page:table",
        "benchmarks.quality --train wiki.test.raw --held-out wiki.valid.raw",
    ),
    "quality-gpt2-60s": Section(
        "quality-gpt2-60s",
        "benchmarks.quality.page:table",
        "benchmarks.quality --train wiki.test.raw --held-out wiki.valid.raw --seconds 60",
    ),
    "quality-gpt2-nano-60s": Section(
        "quality-gpt2-nano-60s",
        "benchmarks.quality.page:table",
        "benchmarks.quality --train wiki.test.raw --held-out wiki.valid.raw "
        "--preset nano --seconds 60",
    ),
    "quality-gpt2-300s": Section(
        "quality-gpt2-300s",
        "benchmarks.quality.page:table",
        "benchmarks.quality --train wiki.test.raw --held-out wiki.valid.raw --seconds 300",
    ),
    "quality-gpt2-nano-300s": Section(
        "quality-gpt2-nano-300s",
        "benchmarks.quality.page:table",
        "benchmarks.quality --train wiki.test.raw --held-out wiki.valid.raw "
        "--preset nano --seconds 300",
    ),
    "quality-gpt2-micro-300s": Section(
        "quality-gpt2-micro-300s",
        "benchmarks.quality.page:table",
        "benchmarks.quality --train wiki.test.raw --held-out wiki.valid.raw "
        "--preset micro --seconds 300",
    ),
    "quality-gpt2-nano-300s-code": Section(
        "quality-gpt2-nano-300s-code",
        "benchmarks.quality.page:table",
        "benchmarks.quality --train code.train.txt --held-out code.held-out.txt "
        "--preset nano --seconds 300",
    ),
    "quality-gpt2-1800s-code": Section(
        "quality-gpt2-1800s-code",
        "benchmarks.quality.page:table",
        "benchmarks.quality --train code.train.txt --held-out code.held-out.txt --seconds 1800",
    ),
    "recipe-choices": Section(
        "recipe-choices", "benchmarks.recipe_choices:page", "benchmarks.recipe_choices"
    ),
    "prepare": Section("prepare", "benchmarks.prepare:table", "benchmarks.prepare --texts TEXT"),
    "bfloat16-weights": Section(
        "bfloat16-weights", "benchmarks.bfloat16_weights:table", "benchmarks.bfloat16_weights"
    ),
    "vitals": Section("vitals", "benchmarks.vitals:table", "benchmarks.vitals"),
    "watching": Section("watching", "benchmarks.watching:table", "benchmarks.watching"),
    "scale": Section("scale", "benchmarks.scale_page:page", "benchmarks.scale"),
}


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(filled(text, SECTIONS, RESULTS), encoding="utf-8")
    print_progress(f"wrote {PAGE.name}")
    newest = newest_of("scale", RESULTS)
    if newest is None:
        return
    from benchmarks.scale_page import draw

    folder = PAGE.with_suffix("")
    folder.mkdir(exist_ok=True)
    for name, drawing in draw(read(newest)).items():
        (folder / f"{name}.svg").write_text(drawing, encoding="utf-8")


def filled(text: str, sections: Mapping[str, Section], results: Path) -> str:
    """The page with every section as its newest results are.

    Raises:
        ValueError: the page has no place for a section, or more than one.
    """
    for name, section in sections.items():
        mark = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        body = body_of(section, results)
        text, n_places = re.subn(mark, lambda m, b=body: f"{m[1]}{b}\n{m[2]}", text, flags=re.S)
        if n_places != 1:
            raise ValueError(f"the page has {n_places} places for <!-- {name} -->, expected 1")
    return text


def body_of(section: Section, results: Path) -> str:
    """A section's Markdown: its newest results, or that there are none."""
    newest = newest_of(section.results, results)
    if newest is None:
        return f"Not measured yet: `python -m {section.command}` does it."
    module, _, function = section.markdown.partition(":")
    markdown: str = getattr(importlib.import_module(module), function)(read(newest))
    return f"{markdown}\n\nAll numbers: `{newest.name}`."


def newest_of(name: str, results: Path) -> Path | None:
    """The newest dated file of results of that name."""
    dated = sorted(results.glob(f"{name}-20[0-9][0-9]-[0-9][0-9]-[0-9][0-9].json"))
    return dated[-1] if dated else None


def read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
