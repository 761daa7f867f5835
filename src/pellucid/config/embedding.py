"""How token ids become vectors: the table of tokens, and what joins it before the first block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import Checked, Count, Positive
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingProjection(Checked):
    """Tokens have vectors of `width` numbers, and a linear map brings them to d_model.

    `place`: the map is the "last" step before the first block, so positions and the norm of the
    input are as wide as the tokens (ELECTRA, ALBERT). It can also come "before_norm" (DeBERTa), or
    "first", before positions (OPT). `bias`: of the map.

    Source: Lan et al. 2020, "ALBERT", section 3.1.
    """

    width: Count
    bias: bool
    place: Literal["last", "before_norm", "first"] = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding(Checked):
    """Token embeddings: multiplied by a number or not; tied to the output head or not.

    `scaled`: by sqrt(d_model). `multiplier`: by this number (default: none). `segments`: how many
    kinds of text a sequence may have, each with its own vector (BERT's token types); most models
    have none. `projection`: of vectors that are not as wide as the model.
    """

    tied: bool
    scaled: bool
    segments: Count | None = None
    multiplier: Positive | None = None
    projection: EmbeddingProjection | None = None

    def _check(self) -> None:
        if self.scaled and self.multiplier is not None:
            raise ConfigError(
                "embedding.multiplier must be none with scaled = true, was "
                f"{self.multiplier:g}: embeddings have one factor; set scaled = false"
            )
