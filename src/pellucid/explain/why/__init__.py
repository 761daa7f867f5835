"""Why a model says a word rather than another one: the difference of two logits, taken apart."""

from pellucid.explain.why.answer import Attribution, find_why
from pellucid.explain.why.types import LayerShare, Part, Rivals, SourceShare, UnitShare

__all__ = ["Attribution", "LayerShare", "Part", "Rivals", "SourceShare", "UnitShare", "find_why"]
