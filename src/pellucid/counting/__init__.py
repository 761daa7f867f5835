"""Parameters, memory and FLOPs of a model, by part, each with its formula.

Comes in: a `config.Transformer`. Goes out: rows of counts. It does not know torch; nothing is
built.
"""

from pellucid.counting.costs import FlopRow, MemoryRow, flops_per_token, memory
from pellucid.counting.parameters import ParameterRow, parameter_count, parameters

__all__ = [
    "FlopRow",
    "MemoryRow",
    "ParameterRow",
    "flops_per_token",
    "memory",
    "parameter_count",
    "parameters",
]
