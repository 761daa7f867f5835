"""Optimisers and schedules: parameters with gradients in, updated parameters out.

Must not know: losses, modules.
"""

from pellucid.old_words import take_old_words as _take_old_words
from pellucid.optim.assemble import assemble_optimiser, assemble_schedule, orthogonaliser
from pellucid.optim.clipping import Gate, gate
from pellucid.optim.eager import SGD, Adam, AdamW
from pellucid.optim.grouping import Group, Groups, group
from pellucid.optim.muon import Muon, Orthogonaliser
from pellucid.optim.optimiser import Optimiser
from pellucid.optim.proximal import Penalty, penalties_of

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Gate",
    "Group",
    "Groups",
    "Muon",
    "Optimiser",
    "Orthogonaliser",
    "Penalty",
    "assemble_optimiser",
    "assemble_schedule",
    "gate",
    "group",
    "orthogonaliser",
    "penalties_of",
]

_take_old_words(__name__, globals())
