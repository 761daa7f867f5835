"""The calibration text of a model that is packed to 4 bits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int
from torch import Tensor

from pellucid.data import Piped, ReadCounts, encode_pieces, read_pieces
from pellucid.errors import TextError
from pellucid.model import Transformer
from pellucid.model.quantization import matrices, matrix_shape
from pellucid.saved_runs.requirements import refuse_to_predict
from pellucid.tokenizers import Tokenizer, no_tokenizer
from pellucid.typed import from_numpy

#: Tokens of the text that are read at most.
_MOST_TOKENS = 2**15


@dataclass(frozen=True, slots=True)
class Calibration:
    """A text as token ids.

    Attributes:
        windows: its first 32,768 tokens, cut to the model's context.
        sha256: of these ids.
    """

    windows: Int[Tensor, "windows time"]
    sha256: str


def read_calibration(
    paths: Iterable[str] | None, model: Transformer, tokenizer: Tokenizer | None, folder: Path
) -> Calibration | None:
    """The first tokens of the text at `paths`: files, folders, patterns or "-".

    Args:
        paths: where the text is; None if no text was asked for.
        model: the model that will read it; it may be on the meta device.
        tokenizer: of the model.
        folder: of the model, for the message without a tokenizer.

    Raises:
        TextError: there is no text or no tokenizer, or the text is too short to tell which inputs
            of a layer go together.
        PellucidError: the model does not continue texts.
    """
    if paths is None:
        return None
    refuse_to_predict(model)
    if tokenizer is None:
        raise TextError(f"{no_tokenizer(folder)}, so no calibration text can be read")
    tokens: list[int] = []
    for piece in encode_pieces(read_pieces(paths, None, ReadCounts(), Piped()), tokenizer):
        tokens.extend(piece.ids.tolist())
        if len(tokens) >= _MOST_TOKENS:
            break
    widest = max(matrix_shape(model.get_parameter(name))[1] for name in matrices(model, "int4"))
    if len(tokens) < widest:
        raise TextError(
            f"the calibration text has {len(tokens):,} tokens; the widest matrix of this model has "
            f"{widest:,} columns and needs at least as many: take a longer text, up to "
            f"{_MOST_TOKENS:,} tokens are read"
        )
    length = min(model.context_length, len(tokens))
    n_windows = min(len(tokens), _MOST_TOKENS) // length
    ids = np.asarray(tokens[: n_windows * length], dtype="<i8").reshape(n_windows, length)
    return Calibration(from_numpy(ids), hashlib.sha256(ids.tobytes()).hexdigest())
