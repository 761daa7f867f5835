"""An answer as plain values, for `--json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pellucid.explain.why.answer import Attribution
from pellucid.explain.why.measure import FACTOR, Measurement
from pellucid.explain.why.path_types import Paths
from pellucid.explain.why.types import Part


def plain_why(
    attribution: Attribution, measurement: Measurement | None = None, *, paths: bool = False
) -> dict[str, Any]:
    """Every number of an answer.

    `parts` and `layers` both add up to `difference`.

    Args:
        why: the answer.
        measurement: what happens without the largest parts, if it was measured.
        paths: whether to follow the heads back.
    """
    rivals = attribution.rivals
    plain: dict[str, Any] = {
        "kind": rivals.kind,
        "token": rivals.token,
        "word": rivals.names[0],
        "rather_than": rivals.names[1],
        "ids": list(rivals.ids),
        "logits": list(rivals.logits),
        "probabilities": list(rivals.probabilities),
        "difference": rivals.difference,
        "after_cap": rivals.after_cap,
        "total": attribution.total,
        "tolerance": attribution.tolerance,
        "adds_up": attribution.adds_up,
        "held": list(attribution.held_scales),
        "parts": [_plain_part(part) for part in attribution.parts],
        "layers": [asdict(layer) for layer in attribution.layers],
        "units": [asdict(unit) for unit in attribution.units],
        "sources": [asdict(source) for source in attribution.sources],
        "source_rows": attribution.source_rows(),
    }
    if measurement is not None:
        plain["measured"] = asdict(measurement) | {
            "factor": FACTOR,
            "disagreeing": [part.name for part in measurement.parts if part.disagrees],
        }
    if paths:
        plain["paths"] = _plain_paths(attribution.paths()) | {"tree": attribution.tree().plain()}
    return plain


def _plain_part(part: Part) -> dict[str, Any]:
    fields = ("name", "kind", "side", "layer", "head", "cross", "share", "no_source")
    return {name: getattr(part, name) for name in fields}


def _plain_paths(paths: Paths) -> dict[str, Any]:
    plain = asdict(paths)
    plain["nodes"] = [asdict(node) | {"name": node.name} for node in paths.nodes]
    return plain | {"total": paths.total}
