"""What the parts of this room may ask of a trace and of its gradients."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.chapter_types import Check, Receipt
from pellucid.explain.edits.interventions import Edit
from pellucid.explain.forward_pass import HeadPlace, HeadScale, Intervention, Side, StackPass
from pellucid.explain.losses.types import ExampleLoss
from pellucid.explain.record_block import BlockRecord
from pellucid.explain.sentence import Sentence, Spelling
from pellucid.explain.why.attribution import Attribution
from pellucid.model import Transformer
from pellucid.runs import Run

T = TypeVar("T")
Shape = tuple[int, ...]
#: Called with how many segments of the backward pass are done, and how many there are.
Progress = Callable[[int, int], None]


class Segment(NamedTuple):
    """A part of the backward pass: -1 is the embedding, 0 to n - 1 a block, n the end."""

    side: Side
    place: int


class SegmentGradients(NamedTuple):
    """The gradients that one segment passes back; states have (1, time, d_model).

    `states` holds the named states of the end, `encoded` the gradient of the encoder's output.
    """

    entering: Tensor
    parameters: dict[str, Tensor]
    states: dict[str, Tensor]
    encoded: Tensor | None = None


@runtime_checkable
class Trace(Protocol):
    """One sentence in one model: `trace[address]` is a tensor without the batch.

    `pellucid.trace` makes one. `scales` holds the heads whose output is scaled, if there are any.
    """

    model: Transformer
    sentence: Sentence
    run: Run | None
    scales: dict[HeadPlace, HeadScale]
    #: other changes of the forward pass, as `edit` makes them
    edits: tuple[Intervention, ...]
    #: the token ids of the text that the model predicts, (time,)
    ids: Tensor
    #: the stack whose states the output head reads
    side: Side
    #: the stacks of the model, in the order in which they run
    sides: tuple[Side, ...]
    #: the dtype of the model's weights, such as float32
    dtype: str
    #: how tokens of the vocabulary are written; None without a tokenizer
    spelling: Spelling | None
    #: whether each token is predicted from those before it
    predicts: bool
    #: what the loss is made of; None if the text has none
    loss: ExampleLoss | None
    #: the states after the final norm of the stack that the head reads, (time, d_model)
    last: Tensor

    def _repr_html_(self) -> str | None:
        """The page of the sentence, for a notebook."""
        ...

    @property
    def companion(self) -> Trace | None:
        """The other text in the loss: the other answer of a preference; None if there is none."""
        ...

    @property
    def has_gradients(self) -> bool:
        """Whether the backward pass is done already."""
        ...

    def stack_pass(self, side: Side) -> StackPass:
        """The states of one stack.

        Raises:
            PellucidError: the model has no such stack.
        """
        ...

    def pieces(self, side: Side) -> tuple[str, ...]:
        """The tokens that a stack reads, as text."""
        ...

    def n_layers(self, side: Side) -> int:
        """The number of blocks of a stack."""
        ...

    def layer(self, side: Side, number: int) -> BlockRecord:
        """All tensors of one layer.

        Raises:
            PellucidError: the stack has no such layer.
        """
        ...

    def attention(self, side: Side, number: int, *, cross: bool = False) -> AttentionRecord:
        """The attention of one layer, or its cross-attention.

        Args:
            side: the stack.
            number: the layer.
            cross: whether the cross-attention is meant.

        Raises:
            PellucidError: the layer has none with heads that pellucid can read.
        """
        ...

    def __getitem__(self, address: str) -> Tensor:
        """The numbers at an address, which may end with [7, 1].

        Raises:
            PellucidError: the trace has no such address.
        """
        ...

    def addresses(self) -> dict[str, Shape]:
        """Every address of the forward pass, with its shape."""
        ...

    def receipt(self, address: str, *index: int) -> Receipt:
        """The receipt of one number: its formula, its operands, and the result computed again.

        Args:
            address: of one number, such as L2.H1.scores[7, 1]; or without its place.
            index: the place, if the address has none.

        Raises:
            PellucidError: there is no such address, it names several numbers, or its number has no
                receipt; says why.
        """
        ...

    def receipts(self, *, backward: bool = True, update: bool = False) -> Iterator[Check]:
        """All numbers of every address, computed again with the equations of their receipts.

        `backward` says whether the gradients are checked too, if the text has a loss; `update`
        whether the next step of every parameter is, which takes several times as long.
        """
        ...

    def logits_at(self, token: int) -> Tensor:
        """(vocabulary,): the logits at one token."""
        ...

    def backward(self, progress: Progress | None = None) -> Gradients:
        """The gradients of the sentence's loss, computed once: now, if `progress` is given.

        Raises:
            PellucidError: the model has no loss for a text.
        """
        ...

    def with_heads(self, scales: Mapping[Any, HeadScale]) -> Trace:
        """The same sentence with some heads scaled.

        Raises:
            PellucidError: there is no such head, or a scale is neither finite nor "mean".
        """
        ...

    def with_model(self, model: Transformer) -> Trace:
        """The same sentence in another model of the same shape."""
        ...

    def edit(self, *edits: str | Edit) -> Trace:
        """The same sentence with something changed, and all that follows computed again.

        Raises:
            PellucidError: an edit has no such address, index or value in this model; says why.
        """
        ...

    def with_sentence(self, sentence: Sentence) -> Trace:
        """Another sentence in the same model, with the same heads scaled and the same edits."""
        ...

    def why(
        self, word: str | int | None = None, rather_than: str | int | None = None, token: int = -1
    ) -> Attribution:
        """Why the model says a word rather than another one.

        Args:
            word: the word, as text or as a token id, or a class; the likeliest by default.
            rather_than: the other; the likeliest by default, or its runner-up.
            token: the token after which the word is predicted.

        Raises:
            PellucidError: the model predicts no word and no class, or the word is no single token.
        """
        ...


@runtime_checkable
class Gradients(Protocol):
    """The gradients of one trace: `gradients[address]` is a tensor without the batch."""

    trace: Trace

    @property
    def norms(self) -> Mapping[str, float]:
        """The length of each parameter's gradient, by its name."""
        ...

    @property
    def sizes(self) -> Mapping[str, float]:
        """The length of each parameter that has a gradient, by its name."""
        ...

    @property
    def norm(self) -> float:
        """The norm of all gradients together, which clipping reads."""
        ...

    def visit_parameters(
        self, take: Callable[[str, Tensor], None], progress: Progress = ...
    ) -> None:
        """Call `take` with the name and the gradient of each parameter."""
        ...

    def stream(self, side: Side) -> list[Tensor]:
        """Gradients (time, d_model) of the residual stream before each block and after the last."""
        ...

    def segment(self, segment: Segment) -> SegmentGradients:
        """The gradients of one segment."""
        ...

    def layer(self, side: Side, number: int) -> dict[str, Tensor]:
        """The gradients of all tensors of one layer, by name; heads come first in their shape."""
        ...

    def parameter(self, name: str, path: str = "") -> Tensor | None:
        """The gradient of a parameter; `path` picks one of the two paths of a tied table.

        Raises:
            PellucidError: the parameter is frozen, or the loss does not depend on it.
        """
        ...

    def gradient(self, name: str) -> Tensor | None:
        """The tensor at an address without an index; None if there is no such address.

        Raises:
            PellucidError: the number exists, but pellucid keeps no gradient of it; says why.
        """
        ...

    def addresses(self) -> dict[str, Shape]:
        """Every address of the backward pass, with its shape."""
        ...

    def __getitem__(self, address: str) -> Tensor:
        """The gradient at an address, which may end with [7, 1].

        Raises:
            PellucidError: there is no such address.
        """
        ...


class LastResults(Generic[T]):
    """The results for the last traces that asked, because receipts ask for the same again."""

    def __init__(self, size: int) -> None:
        self._results: deque[tuple[weakref.ref[Trace], object, T]] = deque(maxlen=size)

    def get(self, trace: Trace, key: object, make: Callable[[], T]) -> T:
        """The result for a trace and a key, made now if it is not among the last."""
        for owner, other, result in tuple(self._results):
            if owner() is trace and other == key:
                return result
        result = make()
        self._results.append((weakref.ref(trace), key, result))
        return result
