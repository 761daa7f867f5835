"""One sentence in one model: every number of the forward pass, by its address.

    trace = pellucid.trace(run, "My name is Varun & I am from Mumbai")
    trace["L2.H1.scores"][7, 1]

The residual stream of the one forward pass is kept. A layer runs again when you open it, and the
last few are kept; a square of queries and keys is formed for one head, and dropped. So memory does
not grow with layers x heads x time^2.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain.addresses import lookup, recompute
from pellucid.explain.addresses.syntax import split_index, take_index, unknown_address_error
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.chapter_types import Check, Receipt
from pellucid.explain.edits.interventions import Edit
from pellucid.explain.edits.plan import plan_edits
from pellucid.explain.formulas.trees import cell
from pellucid.explain.forward_pass import (
    ONE_AT_A_TIME,
    HeadPlace,
    HeadScale,
    HeadScales,
    Intervention,
    Side,
    StackPass,
    evaluating,
    run_forward,
    scaled,
)
from pellucid.explain.gradients import ModelGradients
from pellucid.explain.head_scales import check_scales
from pellucid.explain.losses.plain_text import with_default_loss
from pellucid.explain.record_block import BlockRecord, open_block
from pellucid.explain.sentence import Sentence, Spelling
from pellucid.explain.trace_types import Gradients, Progress, Shape, Trace
from pellucid.explain.why.answer import find_why
from pellucid.explain.why.attribution import Attribution
from pellucid.model import Transformer
from pellucid.runs import Run

_MAX_OPEN_LAYERS = 8


class ModelTrace(Trace):
    """A trace whose model is in memory: it runs a layer again when you read from it."""

    #: How a notebook shows a trace, as HTML and live; `pellucid.web.notebook` sets both.
    face: ClassVar[Callable[[Trace], str | None] | None] = None
    live: ClassVar[Callable[[Trace], Mapping[str, Any] | None] | None] = None

    def _repr_html_(self) -> str | None:
        return None if ModelTrace.face is None else ModelTrace.face(self)

    def _repr_mimebundle_(self, **_: Any) -> Mapping[str, Any] | None:
        return None if ModelTrace.live is None else ModelTrace.live(self)

    def __repr__(self) -> str:
        return f"Trace({self.sentence.text!r}, {len(self.ids)} tokens, {self.sentence.kind})"

    def __init__(
        self,
        model: Transformer,
        sentence: Sentence,
        *,
        run: Run | None = None,
        scales: HeadScales | None = None,
        companion: Trace | None = None,
        edits: Sequence[Intervention] = (),
    ) -> None:
        self.model, self.run = model, run
        self.scales: dict[HeadPlace, HeadScale] = dict(scales or {})
        self.edits = tuple(edits)
        ids = torch.tensor([sentence.ids], device=model.device)
        source = sentence.source_ids
        source_ids = None if source is None else torch.tensor([source], device=model.device)
        self._passes = run_forward(model, ids, source_ids, self.scales, self.edits)
        self._open: OrderedDict[tuple[Side, int], BlockRecord] = OrderedDict()
        self._gradients: ModelGradients | None = None
        self.ids, self.sides = ids[0], tuple(self._passes)
        self.sentence = with_default_loss(sentence, run, model)
        self.loss = self.sentence.loss
        self._companion = companion
        self.side = "encoder" if model.decoder is None else "decoder"
        self.dtype = str(model.token_embedding.weight.dtype).removeprefix("torch.")
        tokenizer = None if run is None else run.tokenizer
        self.spelling = None if tokenizer is None else Spelling(tokenizer)
        self.predicts = model.decoder is not None and model.has_head
        self.last = self._passes[self.side].final[0]

    @property
    def companion(self) -> Trace | None:
        """The other text in the loss."""
        if self._companion is None and self.sentence.companion is not None:
            self._companion = ModelTrace(
                self.model,
                self.sentence.companion,
                run=self.run,
                scales=self.scales,
                companion=self,
            )
        return self._companion

    def stack_pass(self, side: Side) -> StackPass:
        """What went through a stack.

        Raises:
            PellucidError: the model has no such stack.
        """
        if side not in self._passes:
            kind = self.sentence.kind
            raise PellucidError(message("tracing.this-model-has-no-its", side=side, kind=kind))
        return self._passes[side]

    def pieces(self, side: Side) -> tuple[str, ...]:
        """The tokens that a stack read."""
        is_source = side == "encoder" and len(self.sides) == 2
        return self.sentence.source_pieces if is_source else self.sentence.pieces

    def n_layers(self, side: Side) -> int:
        """How many blocks a stack has."""
        return len(self.stack_pass(side).stack.blocks)

    def layer(self, side: Side, number: int) -> BlockRecord:
        """A layer, opened.

        Raises:
            PellucidError: there is no such layer.
        """
        stack_pass = self.stack_pass(side)
        n_layers = len(stack_pass.stack.blocks)
        if not 0 <= number < n_layers:
            values = {"number": number, "side": side, "n_layers": n_layers}
            raise PellucidError(message("tracing.there-is-no-layer-the", **values))
        key = (side, number)
        if key not in self._open:
            changes = scaled(self.model, self.scales, self.edits)
            with ONE_AT_A_TIME, evaluating(self.model), changes:
                self._open[key] = open_block(stack_pass, number)
            while len(self._open) > _MAX_OPEN_LAYERS:
                self._open.popitem(last=False)
        self._open.move_to_end(key)
        return self._open[key]

    def attention(self, side: Side, number: int, *, cross: bool = False) -> AttentionRecord:
        """What one layer's attention did.

        Raises:
            PellucidError: there is no such layer, or its attention is not one that is known.
        """
        attention = self.layer(side, number).attentions.get("cross" if cross else "")
        if attention is None:
            key = "tracing.no-attention-to-an-encoder" if cross else "tracing.no-known-heads"
            raise PellucidError(message(key, number=number, side=side))
        return attention

    def __getitem__(self, address: str) -> Tensor:
        """The numbers at an address, which may end with [7, 1] or be the name of a weight.

        Raises:
            PellucidError: there is no such address; lists similar ones, or says why.
        """
        name, _ = split_index(address)
        with torch.no_grad():
            tensor = lookup.read(self, name)
        if tensor is None:
            raise unknown_address_error(address, lookup.list_near(self, name))
        return take_index(tensor, address)

    def addresses(self) -> dict[str, Shape]:
        """Every address of the forward pass, with its shape; nothing is computed for it."""
        return dict(self._shapes)

    _shapes = cached_property(lookup.list_forward)

    def receipt(self, address: str, *index: int) -> Receipt:
        """The receipt of one number: its formula, its operands, and the result computed again.

        Args:
            address: of one number, such as L2.H1.scores[7, 1].
            index: the place, if the address has none.

        Raises:
            PellucidError: there is no such address, it names several numbers, or its number has no
                receipt; says why.
        """
        return recompute.make_receipt(self, cell(address, *index))

    def receipts(self, *, backward: bool = True, update: bool = False) -> Iterator[Check]:
        """All numbers of every address, computed again."""
        return recompute.check_all(self, backward=backward, update=update)

    def backward(self, progress: Progress | None = None) -> Gradients:
        """The gradients of the sentence's loss, by address: layer by layer, once.

        The pass runs when a gradient needs it; with `progress`, called with how many segments are
        done and how many there are, it runs now.

        Raises:
            PellucidError: the model has no loss for a text; says why.
        """
        if self._gradients is None:
            self._gradients = ModelGradients(self)
        if progress is not None:
            self._gradients.walk(progress)
        return self._gradients

    @property
    def has_gradients(self) -> bool:
        """Whether the backward pass is done already."""
        return self._gradients is not None and self._gradients.is_walked

    def with_heads(self, scales: Mapping[Any, HeadScale]) -> Trace:
        """The same sentence with some heads scaled.

        A scale of 0 removes a head. "mean" gives every token the head's average output over this
        sentence, later tokens included.
        Keys are (layer, head) in the stack that predicts, or names: "E0.H1", "L0.H1.cross".

        Raises:
            PellucidError: there is no such head, or a scale is neither finite nor "mean".
        """
        return self._remake(scales={**self.scales, **check_scales(self, scales)})

    def edit(self, *edits: str | Edit) -> Trace:
        """The same sentence with something changed, and all that follows computed again.

        ADDRESS=VALUE sets, ADDRESS*=FACTOR scales and ADDRESS+=VALUE adds: "tokens[3]= dog",
        "L2.H1=0", "L2.H1.out[7]*=2", "L2.H1.weights[7, 1]=0", "L2.feed_forward.units[:, 30]=0",
        "L2.feed_forward.experts.3=0", "L2.residual[-1]+=4*word( cat)", or any weight by its name.
        An `Edit` takes a tensor as its value.

        Raises:
            PellucidError: an edit has no such address, index or value in this model; says why.
        """
        plan = plan_edits(self, edits)
        edited = self._remake(
            model=plan.model, sentence=plan.sentence, edits=(*self.edits, *plan.interventions)
        )
        return edited.with_heads(plan.scales) if plan.scales else edited

    def _remake(
        self,
        *,
        model: Transformer | None = None,
        sentence: Sentence | None = None,
        scales: HeadScales | None = None,
        edits: Sequence[Intervention] | None = None,
    ) -> ModelTrace:
        """This trace with something else in it; another plain text has a loss of its own."""
        if sentence is not None and not sentence.is_example:
            sentence = replace(sentence, loss=None)
        return ModelTrace(
            self.model if model is None else model,
            self.sentence if sentence is None else sentence,
            run=self.run,
            scales=self.scales if scales is None else scales,
            edits=self.edits if edits is None else edits,
        )

    def with_model(self, model: Transformer) -> Trace:
        """The same sentence in another model of the same shape."""
        return self._remake(model=model)

    def with_sentence(self, sentence: Sentence) -> Trace:
        """Another sentence in the same model, with the same heads scaled and the same edits."""
        return self._remake(sentence=sentence)

    def why(
        self, word: str | int | None = None, rather_than: str | int | None = None, token: int = -1
    ) -> Attribution:
        """Why the model says a word rather than another one: what each part adds.

        Args:
            word: the word, as text or as a token id, or a class; the likeliest by default.
            rather_than: the other; the likeliest by default, or its runner-up if `word` is that.
            token: the token after which the word is predicted.

        Raises:
            PellucidError: the model predicts no word and no class, the word is no single token, or
                both words are the same.
        """
        return find_why(self, word, rather_than, token=token)

    def logits_at(self, token: int) -> Tensor:
        """(vocab): the logits at one place."""
        with torch.no_grad():
            return self.model.logits(self.model.readable(self.last[token]))
