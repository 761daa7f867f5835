"""Count the parameters, memory and FLOPs of a `config.Transformer`, each with its formula.

Must not know: torch, `model`.
"""

from pellucid.counting.activations import choose_kernel
from pellucid.counting.conditions import Conditions
from pellucid.counting.flops import FlopRow, flops_per_token
from pellucid.counting.growth import GrowthRow, growth
from pellucid.counting.inference_memory import (
    looking_memory,
    reading_memory,
    weights_memory,
    writing_memory,
)
from pellucid.counting.layout import (
    ONE_DEVICE,
    Groups,
    Layout,
    Shard,
    check_tensor,
    gathered_bytes,
    weight_groups,
)
from pellucid.counting.memory import MemoryRow, memory
from pellucid.counting.parameters import (
    ParameterRow,
    active_parameter_count,
    parameter_count,
    parameters,
)
from pellucid.counting.peak import (
    UNCERTAINTY,
    MemoryEstimate,
    least_memory,
    least_model,
    peak_memory,
    with_vocabulary,
)
from pellucid.counting.temporaries import chunk_rows
from pellucid.counting.trained import Product, block_products
from pellucid.old_words import take_old_words as _take_old_words

__all__ = [
    "ONE_DEVICE",
    "UNCERTAINTY",
    "Conditions",
    "FlopRow",
    "Groups",
    "GrowthRow",
    "Layout",
    "MemoryEstimate",
    "MemoryRow",
    "ParameterRow",
    "Product",
    "Shard",
    "active_parameter_count",
    "block_products",
    "check_tensor",
    "choose_kernel",
    "chunk_rows",
    "flops_per_token",
    "gathered_bytes",
    "growth",
    "least_memory",
    "least_model",
    "looking_memory",
    "memory",
    "parameter_count",
    "parameters",
    "peak_memory",
    "reading_memory",
    "weight_groups",
    "weights_memory",
    "with_vocabulary",
    "writing_memory",
]

_take_old_words(__name__, globals())
