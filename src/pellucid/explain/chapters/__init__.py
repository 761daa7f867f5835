"""Chapters: one part of a sentence's way each, for every face. Knows no screen.

`CHAPTERS` is the one list; `tell` builds one of them at a place.
"""

from pellucid.explain.chapters.contents import CHAPTERS, Entry, find, tell
from pellucid.explain.chapters.maps import pooled_map

__all__ = ["CHAPTERS", "Entry", "find", "pooled_map", "tell"]
