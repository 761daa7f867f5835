"""An answer as plain values, for `--json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pellucid.explain.trace_types import Trace
from pellucid.explain.why.attribution import Attribution
from pellucid.explain.why.measure import FACTOR
from pellucid.explain.why.path_types import Paths
from pellucid.explain.why.paths import find_paths
from pellucid.explain.why.tree import grow_tree
from pellucid.explain.why.types import Measurement, Part


def plain_why(
    trace: Trace, attribution: Attribution, measurement: Measurement | None = None
) -> dict[str, Any]:
    """Every number of an answer.

    `parts` and `layers` both add up to `difference`.

    Args:
        attribution: the answer.
        measurement: what happens without the largest parts, if it was measured.
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
    paths, tree = find_paths(trace, attribution), grow_tree(trace, attribution)
    plain["paths"] = _plain_paths(paths) | {"tree": tree.plain()}
    return plain


def _plain_part(part: Part) -> dict[str, Any]:
    fields = ("name", "kind", "side", "layer", "head", "cross", "share", "no_source")
    return {name: getattr(part, name) for name in fields}


def _plain_paths(paths: Paths) -> dict[str, Any]:
    plain = asdict(paths)
    plain["nodes"] = [asdict(node) | {"name": node.name} for node in paths.nodes]
    return plain | {"total": paths.total}
