"""What is handed from room to room: batches, a model as objectives see it, a loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

#: Not `Self`: what checks shapes in tests looks at methods one by one, and cannot read it.
_B = TypeVar("_B", bound="Batch")

#: The target of a position at which nothing is predicted.
IGNORED = -100


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows to learn from: every tensor has one entry for each row, along its first dimension.

    `n_supervised` is how many terms (tokens, rows, pairs) the loss of the whole update is a mean
    over. It is known where the batch is made, so that nobody has to ask the device for it, and a
    part of a batch keeps it: losses of the parts then add up to that of the whole, however
    unevenly the supervised tokens fall.
    """

    n_supervised: int

    def named_tensors(self) -> dict[str, Tensor]:
        """Every tensor by name; those of a batch within as `chosen.ids`."""
        tensors: dict[str, Tensor] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                tensors[field.name] = value
            elif isinstance(value, Batch):
                inner = value.named_tensors()
                tensors |= {f"{field.name}.{name}": tensor for name, tensor in inner.items()}
        return tensors

    def map_tensors(self: _B, change: Callable[[Tensor], Tensor]) -> _B:
        """The same batch, with `change` applied to each of its tensors."""
        changes: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                changes[field.name] = change(value)
            elif isinstance(value, Batch):
                changes[field.name] = value.map_tensors(change)
        return replace(self, **changes)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return next(iter(self.named_tensors().values())).shape[0]

    def part(self: _B, rows: slice) -> _B:
        """Some of the rows."""
        return self.map_tensors(lambda tensor: tensor[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBatch(Batch):
    """Token ids, and for each position the token to predict there (or `IGNORED`).

    `documents` numbers the document of each token, where none is to look into another. `padding` is
    True where a token is real, where some only fill up a row.
    """

    ids: Int[Tensor, "batch time"]
    targets: Int[Tensor, "batch time"]
    documents: Int[Tensor, "batch time"] | None = None
    padding: Bool[Tensor, "batch time"] | None = None

    def cut(self, length: int) -> TokenBatch:
        """The same tokens, in pieces of `length`: each is a row, and none sees into another."""
        return self.map_tensors(lambda tensor: tensor.reshape(-1, length))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairBatch(Batch):
    """A text to read, and what is to be written while looking at it.

    `ids` begin with the token that starts the decoder; `targets` are one place on.
    """

    source: Int[Tensor, "batch source"]
    source_padding: Bool[Tensor, "batch source"]
    ids: Int[Tensor, "batch time"]
    targets: Int[Tensor, "batch time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelBatch(Batch):
    """Texts, and the class of each: a number, or a 0 or 1 for every class there is."""

    ids: Int[Tensor, "batch time"]
    padding: Bool[Tensor, "batch time"]
    labels: Int[Tensor, " batch"] | Float[Tensor, "batch classes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceBatch(Batch):
    """Two answers to each prompt, of which the first is to be preferred; targets are the answers'.

    A row of `chosen` and the same row of `rejected` are a pair; they may differ in length.
    """

    chosen: TokenBatch
    rejected: TokenBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutBatch(Batch):
    """Answers that the model itself has drawn, and how much better each was than expected.

    Targets are the drawn tokens. `sampled_log_p` and `reference_log_p` are the log-probabilities
    of the targets under the model that drew them and under the reference, 0 where nothing is
    predicted.
    """

    ids: Int[Tensor, "batch time"]
    targets: Int[Tensor, "batch time"]
    advantages: Float[Tensor, " batch"]
    rewards: Float[Tensor, " batch"]
    sampled_log_p: Float[Tensor, "batch time"]
    reference_log_p: Float[Tensor, "batch time"]


@runtime_checkable
class LanguageModel(Protocol):
    """What an objective may ask of a model: final hidden states, and the head's matrix."""

    @property
    def head_weight(self) -> Float[Tensor, "vocab d_model"]:
        """The matrix that turns hidden states into logits."""
        ...

    @property
    def head_bias(self) -> Float[Tensor, " vocab"] | None:
        """What is added to the logits, where anything is."""
        ...

    @property
    def soft_cap(self) -> float | None:
        """c, where logits are capped by c tanh(z / c)."""
        ...

    def encode(
        self, ids: Int[Tensor, "batch time"], *, padding: Bool[Tensor, "batch time"] | None = None
    ) -> Any:
        """What an encoder-decoder's encoder makes of a text, to be handed back as `encoded`."""
        ...

    def hidden_states(
        self,
        ids: Int[Tensor, "batch time"],
        *,
        encoded: Any = None,
        padding: Bool[Tensor, "batch keys"] | None = None,
        documents: Int[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        """The final hidden states, after the last norm: what the head reads."""
        ...


@runtime_checkable
class Classifier(Protocol):
    """What an objective may ask of a model that names the class of a text."""

    def class_logits(
        self, ids: Int[Tensor, "batch time"], *, padding: Bool[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch classes"]:
        """A logit for each class of each text."""
        ...


@dataclass(frozen=True, slots=True)
class Loss:
    """A scalar to minimise, and its named parts, kept on the device.

    The part `loss_nats` is there always: what is compared between runs, without smoothing and
    penalties. Each part is the batch's share of the whole update's, so that they add up.
    """

    total: Float[Tensor, ""]
    parts: Mapping[str, Float[Tensor, ""]]
