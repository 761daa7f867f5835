"""Published models and measured recipes as named values, in one visible table.

Each preset is a whole `config.Run`.

Must not know: torch, `model`.
"""

from pellucid.old_names import names_of as _names_of
from pellucid.old_words import take_old_words as _take_old_words
from pellucid.presets.catalog import FAMILIES, PRESETS, diff, find
from pellucid.presets.objectives import OBJECTIVES, ObjectivePreset, find_objective
from pellucid.presets.recipe import LARGE_MODEL_OPTIMISER, LARGE_MODEL_SCHEDULE

__all__ = [
    "FAMILIES",
    "LARGE_MODEL_OPTIMISER",
    "LARGE_MODEL_SCHEDULE",
    "OBJECTIVES",
    "PRESETS",
    "ObjectivePreset",
    "diff",
    "find",
    "find_objective",
]

_take_old_words(__name__, globals())
__getattr__ = _names_of(__name__)
