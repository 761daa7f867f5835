"""A model as a picture, from its config alone: as text and as SVG.

Comes in: a `config.Transformer`. Goes out: a drawing of its parts with the shapes on the arrows
between them and the parameters of each.

Must not know: torch, `model`.
"""

from pellucid.drawing.build.model import assemble
from pellucid.drawing.characters import as_text
from pellucid.drawing.elements import Box, Drawing, boxes
from pellucid.drawing.layout import place
from pellucid.drawing.svg import as_svg
from pellucid.old_words import take_old_words as _take_old_words

__all__ = ["Box", "Drawing", "as_svg", "as_text", "assemble", "boxes", "place"]

_take_old_words(__name__, globals())
