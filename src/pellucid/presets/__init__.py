"""Published models and measured recipes as named values, in one visible table.

Comes in: a name. Goes out: a whole `config.Run`. It does not know torch, and nothing here is built.
"""

from pellucid.presets.table import FAMILIES, PRESETS, diff, find

__all__ = ["FAMILIES", "PRESETS", "diff", "find"]
