"""Public datasets by name, brought to disk when asked for. Only it and `hub` open connections.

Must not know: what the files are for.
"""

from pellucid.datasets.catalog import DATASETS, Dataset, Part, address_of, find
from pellucid.datasets.download import Fetched, fetch, find_file
from pellucid.old_names import names_of as _names_of
from pellucid.old_words import take_old_words as _take_old_words

__all__ = [
    "DATASETS",
    "Dataset",
    "Fetched",
    "Part",
    "address_of",
    "fetch",
    "find",
    "find_file",
]

_take_old_words(__name__, globals())
__getattr__ = _names_of(__name__)
