"""Rotary positions: each feature with its partner, by the cosine and sine of its position."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from pellucid.explain.addresses.site import Site
from pellucid.explain.equations.equation import Text, stretch
from pellucid.explain.formulas.nodes import Constant, Formula, Index, Masked, Places, Read, Series
from pellucid.explain.part_facts import rotation_of
from pellucid.explain.trace_types import Trace
from pellucid.model import Rotary


def rotate(
    trace: Trace, site: Site, x: Callable[[Index], Formula], *, features: Tensor, time: str
) -> tuple[Formula, Text]:
    """x cos - partner sin for the first of a pair, x cos + partner sin for the second.

    Features that the scheme does not rotate stay as they are; so do all, if positions do not turn.

    Args:
        trace: the sentence.
        site: of the query or key.
        x: makes the number before, of an index of features over the axis "d".
        features: which feature each place of "d" is.
        time: the axis of tokens.
    """
    stack_pass = trace.stack_pass(site.side)
    scheme = stack_pass.positions(site.layer)
    facts = rotation_of(scheme)
    if facts is None:
        return x(Places(features, ("d",))), "x"
    pairs = features.clamp(max=facts.n_rotated - 1)
    if facts.pairing == "half_split":
        half = facts.n_rotated // 2
        is_first = pairs < half
        partner = torch.where(is_first, pairs + half, pairs - half)
    else:
        is_first = pairs % 2 == 0
        partner = torch.where(is_first, pairs + 1, pairs - 1)
    path = f"{site.side}.{stack_pass.positions_path(site.layer)}"
    places = Places(pairs, ("d",))
    length = stack_pass.ids.shape[1]
    rows = stretch(time, length)
    cos: Formula = Read(f"{path}.{facts.cos}", (rows, places), "cos θ")
    sin: Formula = Read(f"{path}.{facts.sin}", (rows, places), "sin θ")
    if facts.switch is not None and length > facts.switch:  # no buffer has these angles
        cos, sin = (
            Constant(table[:length, pairs], (time, "d"), name)
            for table, name in zip(
                cast("Rotary", scheme).tables(length), ("cos θ", "sin θ"), strict=True
            )
        )
    sign = Constant(torch.where(is_first, -1.0, 1.0), ("d",), "sign")
    rotated = x(places) * cos + sign * (x(Places(partner, ("d",))) * sin)
    text = "x cos θ ± partner sin θ"
    if bool((features < facts.n_rotated).all()):
        return rotated, text
    is_inside = Constant((features < facts.n_rotated).double(), ("d",), "rotated")
    is_outside = Constant((features >= facts.n_rotated).double(), ("d",), "mask")
    unrotated = Masked(is_outside, x(Places(features, ("d",))))
    return (
        Series((Masked(is_inside, rotated), unrotated)),
        lambda env: text if int(features[env["d"]]) < facts.n_rotated else "x",
    )
