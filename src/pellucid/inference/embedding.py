"""Texts as vectors: the states of a model, pooled into one vector for each text.

    mean    the mean of the last states over a text's tokens, with its begin and end tokens
    first   the last state of the first token (BERT's [CLS])
    last    the last state of the last token
    pooler  tanh(dense(first)), as BERT was trained to compare pairs of texts

An encoder reads the texts; in an encoder-decoder, its encoder. You can use a decoder too. Its
states see only earlier tokens, so `first` would be the same for every text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.errors import ConfigError, PellucidError, TextError
from pellucid.generation import finite, pad
from pellucid.model import Transformer
from pellucid.saved_runs.inference_memory import check_reading
from pellucid.saved_runs.load import Run
from pellucid.saved_runs.requirements import kind_of
from pellucid.tokenizers import Framing

#: How the states of a text become one vector.
Pool = Literal["mean", "first", "last", "pooler"]
#: Every pool by name.
POOLS: tuple[Pool, ...] = get_args(Pool)

#: How many texts are compared with all others at once.
_COMPARED_AT_ONCE = 256

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A text, its nearest other text, both by place, and the cosine of the angle between them.

    Attributes:
        text: the place of the text in the list, from 0.
        nearest: the place of its nearest text.
        cosine: between -1 and 1.
    """

    text: int
    nearest: int
    cosine: float


def embed(
    run: Run,
    texts: str | Sequence[str],
    *,
    pool: Pool = "mean",
    normalise: bool = True,
    batch_size: int = 32,
    force: bool = False,
) -> Vectors:
    """One vector for each text, (texts, d_model), of length 1 unless `normalise` is False.

    The model reads padded batches; neither padding nor the other texts change a vector.

    Args:
        run: the run.
        texts: one text, or several.
        pool: how states become one vector.
        normalise: make every vector of length 1.
        batch_size: how many texts the model reads at once.
        force: read them even if pellucid expects to need more memory than is free.

    Raises:
        ConfigError: the pooling is unknown, or the model cannot be pooled so.
        TextError: a text is empty or longer than the model's context.
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    if batch_size < 1:
        raise ConfigError(f"batch_size must be at least 1, was {batch_size}")
    _refuse_pool(run.model, pool)
    rows = _ids(run, texts)
    check_reading(
        run,
        sequences=min(batch_size, len(rows)),
        length=max(map(len, rows), default=0),
        lower="batch_size",
        logits=False,
        force=force,
    )
    # texts of like length together, so that little is padded
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
    vectors = np.zeros((len(rows), run.config.model.d_model), dtype=np.float32)
    for start in range(0, len(order), batch_size):
        places = order[start : start + batch_size]
        vectors[places] = _pooled(run.model, [rows[place] for place in places], pool, normalise)
    return vectors


def neighbours(vectors: Vectors) -> list[Neighbour]:
    """The nearest other vector of each vector, by cosine."""
    nearest = list[Neighbour]()
    for start in range(0, len(vectors), _COMPARED_AT_ONCE):
        cosines = _cosines(vectors[start : start + _COMPARED_AT_ONCE], vectors)
        for text, row in enumerate(cosines, start=start):
            row[text] = -np.inf
            closest = int(row.argmax())
            nearest.append(Neighbour(text=text, nearest=closest, cosine=float(row[closest])))
    return nearest


def ranked(vectors: Vectors, query: Vectors) -> list[Neighbour]:
    """The vectors (texts, d_model) by their nearness to the query (1, d_model), nearest first."""
    cosines = _cosines(vectors, query)[:, 0]
    order = np.argsort(-cosines, kind="stable")
    return [Neighbour(text=int(place), nearest=0, cosine=float(cosines[place])) for place in order]


def _cosines(queries: Vectors, candidates: Vectors) -> npt.NDArray[np.float64]:
    a, b = (matrix.astype(np.float64) for matrix in (queries, candidates))
    a /= np.maximum(np.linalg.norm(a, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    b /= np.maximum(np.linalg.norm(b, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return a @ b.T


def _refuse_pool(model: Transformer, pool: str) -> None:
    if pool not in POOLS:
        raise ConfigError(f"pool must be {', '.join(POOLS)}; was {pool!r}")
    if pool == "pooler" and model.pooler is None:
        raise ConfigError("pool is 'pooler', but this model has none: pool by mean or first")
    if pool == "first" and kind_of(model) == "decoder":
        raise ConfigError(
            "pool is 'first', but a decoder's first token sees no other, so every text would get "
            "the same vector: pool by mean or last"
        )


def _ids(run: Run, texts: Sequence[str]) -> list[list[int]]:
    """The token ids of each text, with the begin and end tokens of its tokenizer."""
    model, tokenizer = run.model, run.require_tokenizer()
    of_decoder = kind_of(model) == "decoder"
    encode = tokenizer.encode_prompt if of_decoder else Framing(tokenizer).ids_of
    rows: list[list[int]] = []
    for place, text in enumerate(texts, start=1):
        label = "text" if len(texts) == 1 else f"text {place}"
        if not text.strip():
            raise TextError(f"the {label} is empty: there is nothing to embed; leave it out")
        rows.append(encode(text, name=label))
        if len(rows[-1]) > model.context_length:
            raise TextError(
                f"the {label} has {len(rows[-1]):,} tokens with what frames it, but the model "
                f"reads at most {model.context_length:,}: shorten it, or embed it in parts"
            )
    return rows


@torch.inference_mode()
def _pooled(
    model: Transformer, rows: Sequence[Sequence[int]], pool: Pool, normalise: bool
) -> Vectors:
    model.eval()
    ids, padding = pad(rows, model.device)
    if kind_of(model) == "encoder-decoder":
        states = model.encode(ids, padding=padding).states
    else:
        states = model.states(ids, padding=padding)
    real = torch.ones_like(ids, dtype=torch.bool) if padding is None else padding
    vectors = _pool(model, states, real, pool).float()
    finite(vectors.abs(), "the vectors")
    if normalise:
        vectors = torch.nn.functional.normalize(vectors, dim=-1)
    return vectors.cpu().numpy()


def _pool(
    model: Transformer,
    states: Float[Tensor, "texts time d_model"],
    real: Bool[Tensor, "texts time"],
    pool: Pool,
) -> Float[Tensor, "texts d_model"]:
    match pool:
        case "mean":
            real_states = torch.where(real[..., None], states, torch.zeros_like(states))
            return real_states.sum(dim=1) / real.sum(dim=1, keepdim=True)
        case "first":
            return states[:, 0]
        case "last":
            last = real.sum(dim=1) - 1
            return states[torch.arange(len(states), device=states.device), last]
        case "pooler":
            if model.pooler is None:
                raise PellucidError("this model has no pooler")
            return torch.tanh(model.pooler(states[:, 0]))
