"""What trackers show of a run beside its numbers: its findings, and pictures of its attention."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import torch

from pellucid.diagnosis.diagnose import diagnose
from pellucid.diagnosis.history.run import history_of_run
from pellucid.errors import PellucidError
from pellucid.explain.api import trace as trace_sentence
from pellucid.observers.tracker import Pixels
from pellucid.saved_runs.load import load
from pellucid.training import generators_kept

#: The attention weights of a head.
_WEIGHTS = re.compile(r"(.+)\.H\d+\.weights")
#: The side of a picture in pixels, at least.
_SIDE = 256


class RunInsights:
    """The findings and pictures of a run, from its folder alone; it changes nothing there."""

    def findings(self, folder: Path) -> list[str]:
        """A line for each finding, the surest first; none if the run cannot be read."""
        try:
            findings = diagnose(history_of_run(folder))
        except PellucidError as error:
            return [f"(not diagnosed: {error})"]
        return [f"{finding.code} {finding.severity}: {finding.what}" for finding in findings]

    def pictures(self, checkpoint: Path, sentence: str) -> Iterator[tuple[str, Pixels]]:
        """The attention weights of each layer, its heads side by side: a query for each row.

        A layer without attention weights, such as linear attention, has no picture.
        """
        with generators_kept():  # the run's own numbers are not touched
            try:
                trace = trace_sentence(load(checkpoint), sentence)
            except PellucidError:  # a sentence that this model cannot be traced with
                return
            layers: dict[str, list[torch.Tensor]] = {}
            for address in trace.addresses():
                if match := _WEIGHTS.fullmatch(address):
                    layers.setdefault(match[1], []).append(trace[address])
            for layer, heads in layers.items():
                yield layer, _pixels(torch.stack(heads))


def _pixels(weights: torch.Tensor) -> Pixels:
    """(heads, queries, keys) of probabilities as one picture, a black line between heads."""
    scale = max(1, _SIDE // weights.shape[-1])
    large = weights.detach().double().repeat_interleave(scale, 1).repeat_interleave(scale, 2)
    with_lines = torch.nn.functional.pad(large, (0, 1)).permute(1, 0, 2).flatten(1)[:, :-1]
    shades: Pixels = (255 * with_lines).round().to(torch.uint8).cpu().numpy()
    return shades
