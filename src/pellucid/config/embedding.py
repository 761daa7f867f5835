"""How token ids become vectors: the table of tokens, and what joins it before the first block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import Checked, Count, Positive
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingProjection(Checked):
    """Tokens have vectors of `width` numbers, and a linear map of each stack makes d_model of them.

    Source: Lan et al. 2020, "ALBERT", section 3.1.

    Attributes:
        width: the features of a token's vector.
        bias: whether the map has a bias.
        place: "last": added positions and `input_norm` are as wide as the tokens, and the map is
            the last step before the first block (ELECTRA, ALBERT). "before_norm": it comes after
            the positions (DeBERTa). "first": before them (OPT).
    """

    width: Count
    bias: bool
    place: Literal["last", "before_norm", "first"] = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding(Checked):
    """Token embeddings: multiplied by a number or not; tied to the output head or not.

    Attributes:
        tied: whether the output head uses the matrix of the embedding.
        scaled: whether embeddings are multiplied by sqrt(d_model).
        segments: how many kinds of text a sequence has, each with a vector of its own (BERT's token
            types).
        multiplier: another factor of the embeddings, as in Granite and MiniCPM; not with `scaled`.
        projection: a linear map from narrower vectors to d_model, as in ELECTRA, ALBERT and OPT.
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
