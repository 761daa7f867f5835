"""Read and write Hugging Face directories: `config.json` and safetensors, as in `transformers`.

Families of models are data, in `families/`. pellucid refuses attributes and tensors that it does
not know, and names them.
"""

from pellucid.checkpoints.huggingface.adapter import (
    ADAPTER_FILES,
    Adapter,
    base_of_adapter,
    is_adapter,
    read_adapter,
    write_adapter,
)
from pellucid.checkpoints.huggingface.classes import MULTI_LABEL, SINGLE_LABEL
from pellucid.checkpoints.huggingface.completion import Completed, complete
from pellucid.checkpoints.huggingface.directory import is_huggingface
from pellucid.checkpoints.huggingface.families import FAMILIES
from pellucid.checkpoints.huggingface.own import (
    OWN_TYPE,
    own_architecture,
    own_attributes,
    read_own,
    write_own,
)
from pellucid.checkpoints.huggingface.read import Published, open_published
from pellucid.checkpoints.huggingface.write import (
    PUBLISHED_FILES,
    choose_family,
    fitting_families,
    write_published,
)
from pellucid.old_words import take_old_words as _take_old_words

__all__ = [
    "ADAPTER_FILES",
    "FAMILIES",
    "MULTI_LABEL",
    "OWN_TYPE",
    "PUBLISHED_FILES",
    "SINGLE_LABEL",
    "Adapter",
    "Completed",
    "Published",
    "base_of_adapter",
    "choose_family",
    "complete",
    "fitting_families",
    "is_adapter",
    "is_huggingface",
    "open_published",
    "own_architecture",
    "own_attributes",
    "read_adapter",
    "read_own",
    "write_adapter",
    "write_own",
    "write_published",
]

_take_old_words(__name__, globals())
