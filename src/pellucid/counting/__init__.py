"""Parameters, memory and FLOPs of a model, by part, each with its formula, and how they grow.

Comes in: a `config.Transformer`. Goes out: rows of counts. It does not know torch; nothing is
built.
"""

from pellucid.counting.flops import FlopRow, flops_per_token
from pellucid.counting.growth import GrowthRow, growth
from pellucid.counting.memory import MemoryRow, memory
from pellucid.counting.parameters import ParameterRow, parameter_count, parameters

__all__ = [
    "FlopRow",
    "GrowthRow",
    "MemoryRow",
    "ParameterRow",
    "flops_per_token",
    "growth",
    "memory",
    "parameter_count",
    "parameters",
]
