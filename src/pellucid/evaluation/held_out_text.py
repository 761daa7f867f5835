"""The loss of a model on text that it was not trained on."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from pellucid.counting.temporaries import EVALUATED_AT_ONCE
from pellucid.data import (
    EncodedCounts,
    Piped,
    ReadCounts,
    encode_pieces,
    id_type,
    next_token_windows,
    read_pieces,
)
from pellucid.errors import TextError
from pellucid.evaluation.objective import standard_error
from pellucid.generation import finite
from pellucid.model import Transformer
from pellucid.objectives import head_cross_entropy
from pellucid.saved_runs.inference_memory import check_windows
from pellucid.saved_runs.load import Run
from pellucid.saved_runs.requirements import refuse_to_predict
from pellucid.saved_runs.token_ids import Row, TokenIds, are_token_ids, read_texts_of_ids
from pellucid.tokenizers import Tokenizer
from pellucid.training import Precision, autocast, to_device

#: The logarithm of the largest number of float64.
_MOST_NATS = math.log(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The loss over a text: every token after the first is predicted once.

    The text is cut into windows of one context, so the first tokens of a window are predicted from
    little. `changed_documents` counts documents that differ from their decoded tokens: they are
    lower-cased, or have other white space. Token ids have no `n_bytes`: without a tokenizer, nobody
    knows their text. `standard_error` is of the loss, over windows.

    Attributes:
        loss_nats: the mean of -log p, in nats per token.
        tokens: how many tokens were predicted.
        unknown_tokens: how many of them are the unknown token.
    """

    loss_nats: float
    tokens: int
    n_bytes: int | None
    unknown_tokens: int = 0
    changed_documents: int = 0
    standard_error: float | None = None

    @property
    def perplexity(self) -> float:
        """e^loss, the number of tokens to guess evenly from; infinite if float64 cannot hold it."""
        return math.exp(self.loss_nats) if self.loss_nats < _MOST_NATS else math.inf

    @property
    def bits_per_byte(self) -> float | None:
        """All bits over all bytes: you can compare tokenizers by it if `comparable` is true.

        None if the text is unknown.
        """
        if self.n_bytes is None:
            return None
        return self.loss_nats * self.tokens / math.log(2) / self.n_bytes

    @property
    def comparable(self) -> bool:
        """Whether all of a known text was predicted: no unknown token, no changed document."""
        return self.n_bytes is not None and not (self.unknown_tokens or self.changed_documents)


def evaluate_tokens(
    model: Transformer,
    tokens: npt.NDArray[Any],
    *,
    n_bytes: int | None,
    precision: Precision = "float32",
    batch_size: int = EVALUATED_AT_ONCE,
    documents: npt.NDArray[Any] | None = None,
) -> Evaluation:
    """The loss of a model over tokens end to end.

    Args:
        model: the model, in evaluation mode.
        tokens: the token ids, (tokens,).
        n_bytes: the bytes of the text that they are; None if nobody knows.
        precision: the type of matrix products.
        batch_size: windows in a batch.
        documents: the first token of each document; with it, documents do not see each other.
    """
    device = model.device
    total = torch.zeros((), dtype=torch.float64)
    window_sums: list[float] = []
    window_counts: list[int] = []
    cut = next_token_windows(
        tokens,
        context_length=model.context_length,
        batch_size=batch_size,
        documents=documents,
    )
    for batch in cut:
        device_batch = to_device(batch, device)
        with torch.no_grad(), autocast(device, precision):
            losses = head_cross_entropy(model, device_batch, divisor=1.0).token_losses
        # MPS has no float64
        losses = losses.cpu() if device.type == "mps" else losses
        total += losses.double().sum().cpu()
        for window in torch.split(losses.double(), model.context_length):
            window_sums.append(float(window.sum()))
            window_counts.append(len(window))
    n = len(tokens) - 1
    error = standard_error(window_sums, window_counts)
    return Evaluation(float(total) / n, n, n_bytes, standard_error=error)


def evaluate(
    run: Run,
    paths: Iterable[str] | TokenIds | None = None,
    *,
    ids: TokenIds | None = None,
    field: str | None = None,
    force: bool = False,
) -> Evaluation:
    """The loss of a run's model over files, folders, or standard input ("-"); or over token ids.

    Args:
        run: the run.
        paths: files, folders, patterns or "-"; or the ids.
        ids: (time,), one text, or rows, several: no token is predicted from another text.
        field: the field of a table that holds the text.
        force: read even if pellucid expects to need more memory than is free.

    Raises:
        TextError: a path holds no readable text; the run has no tokenizer, and you passed no ids;
            or ids have no row in the embedding.
        PellucidError: the model is no decoder.
        NonFiniteError: its loss is not finite.
    """
    refuse_to_predict(run.model)
    if ids is None and are_token_ids(paths):
        paths, ids = None, paths
    if (paths is None) == (ids is None):
        raise TextError("pass either paths of text or token ids, and not both")
    check_windows(run, force=force)
    if ids is not None:
        return _evaluate_ids(run.model, read_texts_of_ids(ids, run.model))
    tokenizer = run.require_tokenizer()
    pieces = read_pieces(cast("Iterable[str]", paths), field, ReadCounts(), Piped())
    counts, starts = EncodedCounts(), list[int]()
    with tempfile.TemporaryFile() as file:  # the text may be larger than memory
        for piece in encode_pieces(pieces, tokenizer):
            if piece.first:
                starts.append(counts.n_tokens)
            file.write(piece.ids.tobytes())
            counts.add(piece, tokenizer.unknown_id)
        file.flush()
        tokens = np.memmap(file, dtype=id_type(tokenizer), mode="r")
        evaluation = evaluate_tokens(
            run.model,
            tokens,
            n_bytes=counts.n_bytes,
            documents=np.asarray(starts) if run.config.training.documents_apart else None,
        )
    finite(torch.tensor(evaluation.loss_nats), "the losses of the text")
    return replace(evaluation, unknown_tokens=counts.unknown, changed_documents=counts.lossy)


def _evaluate_ids(model: Transformer, texts: Sequence[Row]) -> Evaluation:
    """The loss over texts of ids, each from its own start."""
    total, n_tokens = 0.0, 0
    for text in texts:
        if len(text) > 1:  # after a single token nothing is predicted
            part = evaluate_tokens(model, text, n_bytes=None)
            total, n_tokens = total + part.loss_nats * part.tokens, n_tokens + part.tokens
    if not n_tokens:
        raise TextError(
            "ids must have at least two tokens in a text: the first predicts the second"
        )
    finite(torch.tensor(total), "the losses of the text")
    return Evaluation(total / n_tokens, n_tokens, None)


def prefix(
    tokens: npt.NDArray[Any], n_bytes: int, tokenizer: Tokenizer, limit: int
) -> tuple[npt.NDArray[Any], int]:
    """The first tokens of a text, and how many bytes of text they are.

    The bytes are an estimate by share if the tokenizer does not decode to the same bytes.

    Args:
        tokens: the token ids of the text, (tokens,).
        n_bytes: the bytes of the text.
        tokenizer: decodes the tokens.
        limit: the most tokens to return.
    """
    if len(tokens) <= limit:
        return tokens, n_bytes
    part = tokens[:limit]
    if not tokenizer.exact:  # decoded, it would not be the bytes that were read
        return part, round(n_bytes * limit / len(tokens))
    return part, len(tokenizer.decode(part.tolist()).encode())
