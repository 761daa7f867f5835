"""Numbers of the reader's own model and sentence, rounded so that you can compute with them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pellucid.config import Steps
from pellucid.course.exercises.leaves import array, rounded
from pellucid.errors import PellucidError
from pellucid.explain import Trace
from pellucid.maths.softmax import softmax

#: How many of the likeliest words exercises take.
N_WORDS = 8
#: Addresses by role, in the layer `{layer}`; the first that the model has is taken.
_ADDRESSES = {
    "residual": ("{layer}.residual",),
    "query": ("{layer}.H0.q",),
    "key": ("{layer}.H0.k",),
    "value": ("{layer}.H0.v",),
    "gain": ("{layer}.attention_norm.weight",),
    "weight": ("{layer}.attention.query.weight", "token_embedding.weight"),
}
_WORDS = {
    "residual": "the residual stream entering layer {layer}",
    "query": "queries of head 0 in layer {layer}",
    "key": "keys of head 0 in layer {layer}",
    "value": "values of head 0 in layer {layer}",
    "weight": "rows of the token embedding",
    "gradient": "the gradient of your sentence's loss by the stream entering layer {layer}",
    "logits": "logits of the words that are likeliest at the end",
    "probabilities": "probabilities of the words that are likeliest at the end",
    "log_p": "log probabilities of your sentence's tokens",
    "token_p": "probabilities that the model gave your sentence's tokens",
}


class ModelNumbers:
    """Pools of numbers by role, from one trace; each pool is a matrix with a row for each token."""

    def __init__(self, trace: Trace, text: str) -> None:
        self.trace, self.text = trace, text
        self.layer = trace.n_layers(trace.side) - 1
        self._name = f"{'E' if trace.side == 'encoder' else 'L'}{self.layer}"
        self._pools: dict[str, np.ndarray[Any, Any]] = {}

    def take(self, role: str, shape: Sequence[int], start: int) -> Any:
        """Numbers of a role as nested lists, from the token and the feature at `start` on.

        Args:
            role: what the numbers are in the model.
            shape: the shape of the result.
            start: another number gives other tokens and features.
        """
        pool = self._pool(role)
        *rows, width = (*([1] * (1 - len(shape))), *shape)
        count = math.prod(rows) if rows else 1
        block = np.take(pool, range(start, start + count), axis=0, mode="wrap")
        block = np.take(block, range(start, start + width), axis=1, mode="wrap")
        return np.vectorize(rounded, otypes=[float])(block.reshape(tuple(shape))).tolist()

    def distribution(self, shape: Sequence[int], start: int) -> Any:
        """Probabilities of a few words after each token; each row sums to one."""
        logits = np.asarray(self.take("logits", shape, start))
        shares = np.round(np.asarray(softmax(logits)), 3)
        shares[..., 0] += 1 - np.sum(shares, axis=-1)
        return np.round(shares, 3).tolist()

    def origin(self, role: str) -> str:
        """Where numbers of a role come from, in words."""
        return _WORDS[role].format(layer=self.layer)

    def _pool(self, role: str) -> np.ndarray[Any, Any]:
        if role not in self._pools:
            pool = self._read(role)
            self._pools[role] = pool.reshape(-1, 1) if pool.ndim < 2 else pool
        return self._pools[role]

    def _read(self, role: str) -> np.ndarray[Any, Any]:
        match role:
            case "logits":
                return self._logits
            case "gradient":
                return array(self.trace.backward()[f"{self._name}.residual.grad"])
            case "log_p":
                return -array(self.trace["surprisal"])
            case "token_p":
                return np.exp(self._pool("log_p"))
            case "weight":
                return array(self.trace["token_embedding.weight"])[list(self.token_ids)]
            case _:
                return array(self.trace[_ADDRESSES[role][0].format(layer=self._name)])

    @cached_property
    def _logits(self) -> np.ndarray[Any, Any]:
        """The logits at every token of the words that are likeliest at the last."""
        logits = array(self.trace["logits"])
        return logits[:, self.likeliest]

    @cached_property
    def likeliest(self) -> list[int]:
        """The ids of the likeliest next words, the likeliest first."""
        return np.argsort(-array(self.trace["logits"])[-1])[:N_WORDS].tolist()

    @cached_property
    def token_ids(self) -> tuple[int, ...]:
        """The ids of the sentence."""
        return tuple(self.trace.sentence.ids)

    @property
    def pieces(self) -> tuple[str, ...]:
        """The tokens of the sentence."""
        return self.trace.pieces(self.trace.side)

    def facts(self, names: Collection[str]) -> dict[str, tuple[float | int, str]]:
        """Single numbers of the model, its run and its sentence by the names of parameters.

        Args:
            names: the parameters of an equation: some numbers only mean something together.
        """
        model = self.trace.model
        width, context = model.d_model, model.context_length
        layers = (self.layer + 1, "layers of your model")
        facts: dict[str, tuple[float | int, str]] = {
            **dict.fromkeys(("n_layers", "n_decoder_layers", "n_encoder_layers"), layers),
            "n_keys": (model.token_embedding.num_embeddings, "words of your model's vocabulary"),
            "original_length": (context, "the context of your model"),
            "length": (2 * context, "twice the context of your model"),
            "variance": (
                rounded(float(self._pool("residual").var())),
                f"the variance of {self.origin('residual')}",
            ),
            "n_in": (width, "the width d_model of your model"),
            "n_out": (4 * width, "four times the width of your model"),
        }
        if self.has_role("log_p"):
            surprisal = self._pool("log_p")
            facts |= {
                "loss_nats": (rounded(-float(surprisal.mean())), "the loss of your sentence"),
                "tokens": (len(surprisal), "the predicted tokens of your sentence"),
                "n_bytes": (len(self.text.encode()), "the bytes of your sentence"),
            }
        if "heads" in names:
            facts["n_heads"] = (self.n_heads, "heads of a layer of your model")
        return facts | (self._schedule() if "total" in names else {})

    def _schedule(self) -> dict[str, tuple[float | int, str]]:
        """The numbers of the run's schedule in the middle of its training."""
        run = self.trace.run
        if run is None or not isinstance(run.config.training.budget, Steps):
            return {}
        total, share = run.config.training.budget.count, run.config.schedule.warm_up
        return {
            "total": (total, "the steps of your run"),
            "warm_up": (round(share * total), "the steps of your run's warm-up"),
            "step": (total // 2, "the middle of your run"),
        }

    @property
    def n_heads(self) -> int:
        """How many heads of a layer have queries."""
        addresses = self.trace.addresses()
        counts = itertools.takewhile(
            lambda n: f"{self._name}.H{n}.q" in addresses, itertools.count()
        )
        return max(1, len(list(counts)))

    def width(self, role: str) -> int:
        """How many numbers a token has in a role."""
        return self._pool(role).shape[1]

    def has_role(self, role: str) -> bool:
        """Whether the model has numbers of this role."""
        try:
            return self._pool(role).size > 0
        except PellucidError:
            return False
