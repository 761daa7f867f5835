"""Chapters: one part of a sentence's way through the model each, for every display.

`CHAPTERS` is the one list; `build_chapter` builds one of them at a place.
"""

from pellucid.explain.chapters.build import build_chapter, finish_chapter
from pellucid.explain.chapters.contents import CHAPTERS, ChapterEntry, find_chapter
from pellucid.explain.chapters.pictures import pooled_map
from pellucid.old_names import names_of
from pellucid.old_words import take_old_words as _take_old_words

__all__ = [
    "CHAPTERS",
    "ChapterEntry",
    "build_chapter",
    "find_chapter",
    "finish_chapter",
    "pooled_map",
]

_take_old_words(__name__, globals())
__getattr__ = names_of(__name__)
