"""Edits as they are written: ADDRESS=VALUE, ADDRESS*=FACTOR, ADDRESS+=VALUE.

The address may be of a token, tokens[3]= dog, of a whole head, L2.H1=mean, of its output at a
token, L2.H1.out[7]*=2, or of one of its weights, L2.H1.weights[7, 1]=0. It may be of a unit,
L2.feed_forward.units[:, 30]=0, of a sublayer, L2.feed_forward[7]=0, or of an expert,
L2.feed_forward.experts.3=0. A direction is added to the stream: L2.residual[-1]+=4*word( cat), the
head's row of a word, or token( cat), its embedding. Any other name is a weight of the model.
"""

from __future__ import annotations

import math
import re

import torch

from pellucid.errors import PellucidError
from pellucid.explain.edits.interventions import (
    Edit,
    Operation,
    Value,
)
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.rivals import find_token

_EDIT = re.compile(r"(?P<address>[^=]+?)\s*(?P<operator>\*=|\+=|=)(?P<value>.*)\Z", re.DOTALL)
_DIRECTION = re.compile(r"\s*(?:(?P<factor>[^*]+)\*)?(?P<table>word|token)\((?P<word>.+)\)\s*\Z")
_OPERATIONS: dict[str, Operation] = {"=": "set", "*=": "scale", "+=": "add"}


def parse_edit(text: str) -> Edit:
    """An edit from its text.

    Raises:
        PellucidError: it is not written as ADDRESS=VALUE, ADDRESS*=FACTOR or ADDRESS+=VALUE.
    """
    match = _EDIT.match(text)
    if match is None:
        raise PellucidError(
            f"{text!r} is no edit: write ADDRESS=VALUE, ADDRESS*=FACTOR or ADDRESS+=VALUE, such as "
            "L2.H1=0, tokens[3]= dog, L2.residual[-1]+=4*word( cat)"
        )
    return Edit(
        address=match["address"].strip(),
        operation=_OPERATIONS[match["operator"]],
        value=match["value"],
    )


@torch.no_grad()
def read_value(trace: Trace, edit: Edit) -> Value:
    """A number, "mean", a tensor, or a direction by the name of its word."""
    value = edit.value
    if not isinstance(value, str):
        return float(value) if isinstance(value, int | float) else value
    if value.strip() == "mean":
        if edit.operation != "set":
            raise PellucidError(f"a mean is set: write {edit.address}=mean")
        return "mean"
    match = _DIRECTION.match(value)
    if match is None:
        return _read_number(value, edit)
    token_id = find_token(trace, match["word"])
    model = trace.model
    table = model.head_weight if match["table"] == "word" else model.token_embedding.weight
    factor = 1.0 if match["factor"] is None else _read_number(match["factor"], edit)
    return factor * table[token_id]


def _read_number(text: str, edit: Edit) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise PellucidError(
            f"{text.strip()!r} is no value for {edit.address}: write a finite number, mean, or a "
            "direction such as 4*word( cat)"
        )
    return number
