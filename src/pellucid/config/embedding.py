"""How token ids become vectors: the table of tokens, and what joins it before the first block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import Checked, Count


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingProjection(Checked):
    """Tokens have vectors of `width` numbers, and a linear map brings them to d_model.

    "after_positions": segments, positions and the norm of the input are as wide as the tokens, and
    the map is the last step before the first block, as in ELECTRA and ALBERT. "before_positions":
    the map is the first step, as in OPT. `bias`: of the map.

    Source: Lan et al. 2020, "ALBERT", section 3.1.
    """

    width: Count
    bias: bool
    place: Literal["after_positions", "before_positions"] = "after_positions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding(Checked):
    """Token embeddings: scaled by sqrt(d_model) or not; tied to the output head or not.

    `segments`: how many kinds of text a sequence may have, each with its own vector (BERT's token
    types); most models have none. `projection`: of vectors that are not as wide as the model.
    """

    tied: bool
    scaled: bool
    segments: Count | None = None
    projection: EmbeddingProjection | None = None
