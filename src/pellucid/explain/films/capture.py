"""What a sentence looks like inside a model at one moment, in few bytes.

In bytes, for n layers of h heads and t tokens: n h t^2 for the maps, and 4 (n + 1) t (2 k + 2) for
all else, k words a layer and token. Maps of more than `SIDE` tokens are pooled.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.outputs import read_lens
from pellucid.explain.trace_types import Trace

#: Rows and columns of a map, at most.
SIDE = 48
#: Words that are kept of each layer at each token.
WORDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A sentence inside a model after `step` updates.

    Shapes:
        tensors["L0.weights"]: (heads, queries, keys) uint8, 255 for all of the attention.
        tensors["decoder.norms"], tensors["encoder.norms"]: (layers + 1, time) float32, lengths of
            the residual stream.
        tensors["words"], tensors["shares"]: (layers + 1, time, WORDS) int32 and float32, the
            likeliest after each layer, the final norm and the head applied.
        tensors["targets"]: (layers + 1, time - 1) float32, p of the token that came.
        tensors["surprisal"]: (time - 1,) float32, in nats.

    What a model does not have is left out.
    """

    step: int
    tensors: dict[str, Tensor]

    @property
    def loss(self) -> float | None:
        """The mean surprisal, in nats."""
        surprisal = self.tensors.get("surprisal")
        return None if surprisal is None else float(surprisal.double().mean())


@torch.no_grad()
def take_snapshot(trace: Trace, step: int) -> Snapshot:
    """What the trace's sentence looks like inside."""
    tensors: dict[str, Tensor] = {}
    for side in trace.sides:
        states = trace.stack_pass(side).states
        tensors[f"{side}.norms"] = torch.stack(
            [s[0].float().square().sum(-1).sqrt() for s in states]
        )
        for layer in range(trace.n_layers(side)):
            attention = trace.layer(side, layer).attentions.get("")
            if attention is not None:
                layer_name = f"{stack_letter(side)}{layer}"
                heads = [
                    trace[f"{layer_name}.H{head}.weights"] for head in range(attention.n_heads)
                ]
                tensors[f"{layer_name}.weights"] = _shades(torch.stack(heads))
    if trace.model.has_head:
        tensors |= _predictions(trace)
    if "surprisal" in trace.addresses():
        tensors["surprisal"] = trace["surprisal"].float()
    return Snapshot(step=step, tensors={name: t.cpu().contiguous() for name, t in tensors.items()})


def pooled(maps: Tensor, side: int) -> tuple[Tensor, int]:
    """(..., rows, columns) of at most `side` each, the largest of each patch; and its size."""
    patch = -(-max(maps.shape[-2:]) // side)
    if patch <= 1:
        return maps, 1
    return F.max_pool2d(maps.float(), patch, ceil_mode=True).to(maps.dtype), patch


def _shades(weights: Tensor) -> Tensor:
    small, _ = pooled(weights.float(), SIDE)
    return (small.nan_to_num().clamp(0, 1) * 255).round().to(torch.uint8)


def _predictions(trace: Trace) -> dict[str, Tensor]:
    """The predictions after each layer, one layer at a time: each is a whole distribution."""
    places = range(len(trace.ids))
    words: list[Tensor] = []
    shares: list[Tensor] = []
    targets: list[Tensor] = []
    for state in trace.stack_pass(trace.side).states:
        p = read_lens(trace, state, places)
        best = p.topk(min(WORDS, p.shape[-1]))
        words.append(best.indices.int())
        shares.append(best.values.float())
        if trace.predicts:
            targets.append(p[:-1].gather(1, trace.ids[1:, None])[:, 0].float())
    tensors = {"words": torch.stack(words), "shares": torch.stack(shares)}
    return tensors | ({"targets": torch.stack(targets)} if targets else {})
