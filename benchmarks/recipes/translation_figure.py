"""What two models look at while they write one translation, side by side, as an SVG file.

    python -m benchmarks.recipes.translation_figure PAIR_RUN ONE_TEXT_RUN "English." "French."

Weights are computed again, outside the model, from what goes into its attention layers: hooks see
the inputs, and softmax(q k^T / sqrt(d_head)) is what the layer itself computes. Each row is a token
that is written; it shows how much the model looks at each token it knows by then, as a mean over
all heads of one layer, or of all layers.

Comes in: two runs of docs/recipes/translation.md, a sentence and its translation. Goes out:
docs/recipes/figures/translation-attention.svg.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid import runs
from pellucid.data import ChatTemplate, template_for
from pellucid.generation import encode
from pellucid.model.attention import CrossAttention, MultiHeadAttention, split_heads
from pellucid.tokenizers import Framing

CELL, LABELS, TOP, GAP, LEFT = 22, 92, 212, 56, 20
STYLE = """
:root { color-scheme: light dark; --paper: #fcfcfa; --ink: #1c1d21; --soft: #5b5d66;
  --line: #dcdcd6; --one: #1766a6; --two: #b4470b; --three: #6d5a8c; }
@media (prefers-color-scheme: dark) { :root { --paper: #131417; --ink: #e9e9e6; --soft: #a3a6af;
  --line: #2c2e34; --one: #74b9f0; --two: #f3a35f; --three: #bfa9e6; } }
.paper { fill: var(--paper); }
text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: var(--ink); }
.title { font-size: 17px; font-weight: 600; } .says { fill: var(--soft); font-size: 12px; }
.name { font-weight: 600; } .cell { stroke: var(--line); stroke-width: 1; fill: none; }
.source { fill: var(--one); } .target { fill: var(--two); } .around { fill: var(--three); }
.unseen { fill: var(--line); opacity: .5; }
text.source, text.target, text.around { font-weight: 600; }
"""


@dataclass(frozen=True)
class Panel:
    """What each written token (row) looked at (columns): weights, None where it cannot look."""

    title: str
    subtitle: str
    tokens: list[str]
    columns: list[tuple[str, str]]
    weights: list[list[float | None]]


def main() -> None:
    """Look twice, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("pair", "one_text", "source", "target"):
        parser.add_argument(name)
    parser.add_argument("--pair-layer", type=int, help="one layer, from 0; all by default")
    parser.add_argument("--one-text-layer", type=int)
    parser.add_argument("--out", default="docs/recipes/figures/translation-attention.svg")
    arguments = parser.parse_args()
    panels = [
        of_pair(
            runs.load(arguments.pair), arguments.source, arguments.target, arguments.pair_layer
        ),
        of_one_text(
            runs.load(arguments.one_text),
            arguments.source,
            arguments.target,
            arguments.one_text_layer,
        ),
    ]
    for panel in panels:
        print_panel(panel)
    Path(arguments.out).write_text(as_svg(panels, arguments.source), encoding="utf-8")


def of_pair(run: runs.Run, source: str, target: str, layer: int | None) -> Panel:
    """Cross-attention: from the written tokens to the encoder's states."""
    tokenizer = run.tokenizer
    read = Framing(tokenizer).ids_of(source)
    ids = [tokenizer.begin_id, *tokenizer.encode(target)]
    weights_by_layer: list[Tensor] = []

    def look(module: CrossAttention, inputs: tuple[Any, ...]) -> None:
        x, encoded = inputs[0], inputs[1]
        q = split_heads(module.query(x), module.n_heads)
        k = split_heads(module.key(encoded.states), module.n_kv_heads)
        weights_by_layer.append(_softmax(q, k, module.scale, causal=False))

    with hooked(run, CrossAttention, look), torch.no_grad():
        run.model(torch.tensor([ids]), encoded=encode(run.model, [read]))
    weights = _mean(weights_by_layer, layer)
    return Panel(
        title="encoder-decoder: cross-attention",
        subtitle=_layers(len(weights_by_layer), layer),
        tokens=_words(run, [*ids[1:], tokenizer.end_id]),
        columns=[(word, "source") for word in _words(run, read)],
        weights=[list(row) for row in weights],
    )


def of_one_text(run: runs.Run, source: str, target: str, layer: int | None) -> Panel:
    """Self-attention: from the written tokens to all tokens before them."""
    tokenizer = run.tokenizer
    before, after = "Translate to French. English:", " French:"
    with closing(ChatTemplate(template_for(None, run.folder), tokenizer)) as template:
        conversation = template.conversation(
            "the figure",
            [
                {"role": "user", "content": f"{before} {source}{after}"},
                {"role": "assistant", "content": target},
            ],
        )
    ids = conversation.ids[:-1]  # the end is written, and nothing is written after it
    first = conversation.supervised.index(1) - 1  # the place from which the first token is written
    weights_by_layer: list[Tensor] = []

    def look(module: MultiHeadAttention, inputs: tuple[Any, ...]) -> None:
        x, positions, view = inputs[0], inputs[1], inputs[2]
        q = split_heads(module.query(x), module.n_heads)
        k = split_heads(module.key(x), module.n_kv_heads)
        weights_by_layer.append(
            _softmax(
                positions.rotate(q, view), positions.rotate(k, view), module.scale, causal=True
            )
        )

    with hooked(run, MultiHeadAttention, look), torch.no_grad():
        run.model(torch.tensor([ids]))
    weights = _mean(weights_by_layer, layer)
    frame_lengths = len(tokenizer.encode(before)) + 1, len(tokenizer.encode(after))
    kinds = ["around"] * frame_lengths[0] + ["source"] * (first + 1 - sum(frame_lengths))
    kinds += ["around"] * frame_lengths[1] + ["target"] * (len(ids) - first - 1)
    rows = range(first, len(ids))
    return Panel(
        title="decoder alone: self-attention",
        subtitle=_layers(len(weights_by_layer), layer),
        tokens=_words(run, [*ids[first + 1 :], tokenizer.end_id]),
        columns=list(zip(_words(run, ids), kinds, strict=True)),
        weights=[
            [weight if place <= row else None for place, weight in enumerate(weights[row])]
            for row in rows
        ],
    )


class hooked:  # noqa: N801 - reads as a word in `with`
    """Calls `look` with a layer and its inputs before each layer of a kind."""

    def __init__(self, run: runs.Run, kind: type, look: Callable[..., None]) -> None:
        assert run.model.decoder is not None
        layers = [module for module in run.model.decoder.modules() if type(module) is kind]
        self._handles = [layer.register_forward_pre_hook(look) for layer in layers]

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()


def _softmax(q: Tensor, k: Tensor, scale: float, *, causal: bool) -> Tensor:
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scores = scale * q.float() @ k.float().transpose(-2, -1)
    if causal:
        is_future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(is_future, -torch.inf)
    return torch.softmax(scores, dim=-1)[0]


def _mean(weights_by_layer: Sequence[Tensor], layer: int | None) -> list[list[float]]:
    """Over heads, and over layers if none is chosen: (written, looked at)."""
    chosen_layers = (
        torch.stack(list(weights_by_layer)) if layer is None else weights_by_layer[layer][None]
    )
    weights: list[list[float]] = chosen_layers.mean(dim=(0, 1)).tolist()
    return weights


def _layers(n: int, layer: int | None) -> str:
    layers_text = f"all {n} layers" if layer is None else f"layer {layer + 1} of {n}"
    return f"mean over the heads of {layers_text}"


def _words(run: runs.Run, ids: Sequence[int]) -> list[str]:
    names = {run.tokenizer.begin_id: "begin", run.tokenizer.end_id: "end"}
    return [names.get(token_id) or run.tokenizer.token(token_id).strip() or "␣" for token_id in ids]


def print_panel(panel: Panel) -> None:
    """The same in words: the three that each token looked at most."""
    print(f"{panel.title}; {panel.subtitle}")
    for word, row in zip(panel.tokens, panel.weights, strict=True):
        weighted_columns = [
            (weight, column) for column, weight in enumerate(row) if weight is not None
        ]
        best = sorted(weighted_columns, reverse=True)[:3]
        print(f"  {word:12}", ", ".join(f"{panel.columns[c][0]} {w:.2f}" for w, c in best))


def as_svg(panels: Sequence[Panel], source: str) -> str:
    """The panels, side by side."""
    x, parts = LEFT, list[str]()
    for panel in panels:
        parts += _panel(panel, x)
        x += LABELS + CELL * len(panel.columns) + GAP
    height = TOP + CELL * max(len(panel.tokens) for panel in panels) + 48
    width = x - GAP + LEFT + 24
    title = f"What is looked at while “{source}” becomes French"
    legend = "each row is a token that is written, each column what it may look at"
    colours = "blue: the English; orange: the French so far; violet: what stands around them"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title desc" '
            f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="desc">{escape(legend)}</desc>',
            f"<style>{STYLE}</style>",
            f'<path class="paper" d="M0 0H{width}V{height}H0Z"/>',
            f'<text class="title" x="{LEFT}" y="34">{escape(title)}</text>',
            f'<text class="says" x="{LEFT}" y="54">{escape(legend)}; the stronger, the more</text>',
            f'<text class="says" x="{LEFT}" y="72">{escape(colours)}</text>',
            *parts,
            "</svg>\n",
        ]
    )


def _panel(panel: Panel, x: int) -> list[str]:
    left = x + LABELS
    # the darkest cell of a panel is full
    largest = max(weight for row in panel.weights for weight in row if weight is not None)
    parts = [
        f'<text class="name" x="{x}" y="106">{escape(panel.title)}</text>',
        f'<text class="says" x="{x}" y="124">{escape(panel.subtitle)}</text>',
    ]
    for column, (word, kind) in enumerate(panel.columns):
        column_x = left + CELL * column + CELL // 2 + 4
        parts.append(
            f'<text class="{kind}" x="{column_x}" y="{TOP - 8}" '
            f'transform="rotate(-60 {column_x} {TOP - 8})">{escape(word)}</text>'
        )
    for row, (word, weights) in enumerate(zip(panel.tokens, panel.weights, strict=True)):
        y = TOP + CELL * row
        parts.append(
            f'<text class="target" text-anchor="end" x="{left - 8}" y="{y + 15}">'
            f"{escape(word)}</text>"
        )
        for column, weight in enumerate(weights):
            place = f'x="{left + CELL * column}" y="{y}" width="{CELL}" height="{CELL}"'
            if weight is None:
                parts.append(f'<rect class="unseen" {place}/>')
                continue
            kind = panel.columns[column][1]
            parts.append(
                f'<rect class="{kind}" {place} opacity="{weight / largest:.3f}">'
                f"<title>{escape(word)} looks at {escape(panel.columns[column][0])}: "
                f"{weight:.0%}</title></rect>"
            )
            parts.append(f'<rect class="cell" {place}/>')
    return parts


if __name__ == "__main__":
    main()
