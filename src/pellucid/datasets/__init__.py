"""Public datasets by name, brought to disk when asked for. The one room that opens a connection."""

from pellucid.datasets.catalog import DATASETS, Dataset, Part, address_of, find
from pellucid.datasets.download import Fetched, fetch, whole

__all__ = [
    "DATASETS",
    "Dataset",
    "Fetched",
    "Part",
    "address_of",
    "fetch",
    "find",
    "whole",
]
