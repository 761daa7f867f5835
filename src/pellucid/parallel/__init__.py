"""Many processes that train one model: the one room that imports `torch.distributed`.

Comes in: torchrun's variables. Goes out: a `World`, with which a caller has no need to ask how many
processes there are. Alone it does nothing, and loads nothing of torch.

Must not know: models, the loop, files.
"""

from pellucid.parallel.launch import count_ranks, joined, leads, own_command, refused_together
from pellucid.parallel.world import Division, World

__all__ = ["Division", "World", "count_ranks", "joined", "leads", "own_command", "refused_together"]
