"""Published models and measured recipes as named values, in one visible table.

Comes in: a name. Goes out: a whole `config.Run`. It does not know torch, and nothing here is built.
"""

from pellucid.presets.objectives import GOALS, Goal, find_goal
from pellucid.presets.recipes import LARGE_MODEL_OPTIMISER, LARGE_MODEL_SCHEDULE
from pellucid.presets.table import FAMILIES, PRESETS, diff, find

__all__ = [
    "FAMILIES",
    "GOALS",
    "LARGE_MODEL_OPTIMISER",
    "LARGE_MODEL_SCHEDULE",
    "PRESETS",
    "Goal",
    "diff",
    "find",
    "find_goal",
]
