"""The one door from a config to an objective.

Comes in: a `config.Objective`. Goes out: an `Objective`. No other file of this room reads a config.
"""

from __future__ import annotations

from pellucid import config
from pellucid.objectives.next_token import NextToken
from pellucid.objectives.objective import Objective


def assemble(objective: config.Objective) -> Objective:
    """The objective that `objective` describes."""
    return NextToken(label_smoothing=objective.label_smoothing, z_loss=objective.z_loss)
