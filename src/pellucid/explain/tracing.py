"""Every number of one sentence's way through a model, by its address.

    trace = pellucid.trace(run, "My name is Varun & I am from Mumbai")
    trace["L2.H1.scores"][7, 1]

Comes in: a run and a sentence, or a model and ids. Goes out: the model's own tensors. It does not
know how they are shown.

Of the one forward pass the residual stream is kept. A layer is run again when it is opened, and of
those the last few are kept; a square of queries and keys is formed for one head, and dropped. So
memory does not grow with layers x heads x time^2.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.explain import attention_heads, optimiser_step, outputs
from pellucid.explain.addresses import (
    Address,
    Shape,
    of_stack,
    parsed,
    pointed,
    refuse_unknown,
    taken,
    weight,
)
from pellucid.explain.backward_segments import Watch
from pellucid.explain.forward_pass import (
    ONE_AT_A_TIME,
    HeadPlace,
    HeadScale,
    HeadScales,
    Side,
    StackPass,
    evaluating,
    read,
    scaled,
)
from pellucid.explain.gradients import Gradients
from pellucid.explain.head_scales import scales_of
from pellucid.explain.record_block import AttentionRecord, BlockRecord, opened
from pellucid.explain.sentence import Sentence, Spelling
from pellucid.model import Positions, Transformer
from pellucid.runs import Run

#: How many opened layers are kept.
_MAX_OPEN = 8


class Trace:
    """One sentence in one model: `trace[address]` is a tensor without the batch.

    `scales` says how much heads count, where some do not count fully.
    """

    #: How a notebook shows a trace; whoever can draw one puts it here.
    face: ClassVar[Callable[[Trace], str | None] | None] = None

    def _repr_html_(self) -> str | None:
        return None if Trace.face is None else Trace.face(self)

    def __init__(
        self,
        model: Transformer,
        sentence: Sentence,
        *,
        run: Run | None = None,
        scales: HeadScales | None = None,
    ) -> None:
        self.model, self.sentence, self.run = model, sentence, run
        self.scales: dict[HeadPlace, HeadScale] = dict(scales or {})
        ids = torch.tensor([sentence.ids], device=model.device)
        source = sentence.source_ids
        self.ids = ids[0]
        self._passes = read(
            model,
            ids,
            None if source is None else torch.tensor([source], device=model.device),
            self.scales,
        )
        self._open: OrderedDict[tuple[Side, int], BlockRecord] = OrderedDict()
        self._back: Gradients | None = None

    @property
    def side(self) -> Side:
        """The stack whose states the head reads."""
        return "encoder" if self.model.decoder is None else "decoder"

    @property
    def sides(self) -> tuple[Side, ...]:
        """The stacks there are, in the order in which they read."""
        return tuple(self._passes)

    @property
    def dtype(self) -> str:
        """In which the model's weights are, such as float32."""
        return str(self.model.token_embedding.weight.dtype).removeprefix("torch.")

    @cached_property
    def spelling(self) -> Spelling | None:
        """How words of the vocabulary are written; None without a tokenizer."""
        return None if self.run is None else Spelling(self.run.tokenizer)

    @property
    def predicts(self) -> bool:
        """Whether each token is predicted from those before it."""
        return self.model.decoder is not None and self.model.has_head

    def passed(self, side: Side) -> StackPass:
        """What went through a stack.

        Raises:
            PellucidError: the model has no such stack.
        """
        if side not in self._passes:
            raise PellucidError(f"this model has no {side}: it is {_a(self.sentence.kind)}")
        return self._passes[side]

    def pieces(self, side: Side) -> tuple[str, ...]:
        """The tokens that a stack read."""
        has_source = len(self._passes) == 2
        return (
            self.sentence.source_pieces
            if has_source and side == "encoder"
            else self.sentence.pieces
        )

    def n_layers(self, side: Side) -> int:
        """How many blocks a stack has."""
        return len(self.passed(side).stack.blocks)

    def layer(self, side: Side, number: int) -> BlockRecord:
        """A layer, opened.

        Raises:
            PellucidError: there is no such layer.
        """
        passed = self.passed(side)
        if not 0 <= number < len(passed.stack.blocks):
            raise PellucidError(
                f"there is no layer {number}: the {side} has {len(passed.stack.blocks)}, "
                f"counted from 0"
            )
        key = (side, number)
        if key not in self._open:
            model = self.model
            with ONE_AT_A_TIME, evaluating(model), scaled(model, self.scales):
                self._open[key] = opened(passed, number)
            while len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(key)
        return self._open[key]

    def look(self, side: Side, number: int, *, cross: bool = False) -> AttentionRecord:
        """What one layer's attention did.

        Raises:
            PellucidError: there is no such layer, or its attention is not one that is known.
        """
        look = self.layer(side, number).looks.get("cross" if cross else "")
        if look is None:
            missing = "attention to an encoder" if cross else "attention whose heads are known"
            raise PellucidError(f"layer {number} of the {side} has no {missing}")
        return look

    def __getitem__(self, address: str) -> Tensor:
        """The numbers at an address, as the model had them.

        An address may end with [7, 1], and may be the name of a weight.

        Raises:
            PellucidError: there is no such address; says what is near, or why there is nothing.
        """
        name, _ = pointed(address)
        with torch.no_grad():
            place = parsed(name)
            tensor = self._whole(name) if place is None else self._within(place)
            tensor = weight(self.model, name) if tensor is None else tensor
        if tensor is None and (Gradients.may_hold(name) or optimiser_step.may_hold(name)):
            walk = optimiser_step.of if optimiser_step.may_hold(name) else None
            tensor = self.backward().of(name) if walk is None else walk(self, name)
            if tensor is None:
                raise refuse_unknown(address, optimiser_step.addresses(self))
        if tensor is None:
            raise refuse_unknown(address, self.addresses())
        return taken(tensor, address)

    def addresses(self) -> dict[str, Shape]:
        """Every address with the shape of what is there; nothing is computed for it."""
        source = self.sentence.source_ids
        named_shapes: dict[str, Shape] = {}
        for side, passed in self._passes.items():
            at = "" if side == self.side else "encoder."
            time, width = passed.final.shape[1:]
            named_shapes |= {f"{at}token_embedding": (time, width), f"{at}embedding": (time, width)}
            if type(passed.positions).embed is not Positions.embed:
                named_shapes[f"{at}positions"] = (time, width)
            named_shapes |= of_stack(
                side, passed.stack, time, width, None if source is None else len(source)
            )
            named_shapes[f"{at}final_norm"] = (time, width)
        return named_shapes | outputs.shapes(self)

    def backward(self, watch: Watch = lambda done, total: None) -> Gradients:
        """The gradient of the sentence's loss, by address: layer by layer, once.

        `watch` is told how many stretches of the way back are done, and how many there are.

        Raises:
            PellucidError: the model has no loss to go back from; says why.
        """
        if self._back is None:
            self._back = Gradients(self, watch)
        return self._back

    @property
    def went_back(self) -> bool:
        """Whether `backward` was there already."""
        return self._back is not None

    def with_heads(self, scales: Mapping[Any, HeadScale]) -> Trace:
        """The same sentence, some heads counting as much as is said: 0 takes one away, "mean" gives
        every token what the head finds on average over this sentence, later tokens included.

        Keys are (layer, head) in the stack that predicts, or names: "E0.H1", "L0.H1.cross".

        Raises:
            PellucidError: there is no such head, or a scale is neither finite nor "mean".
        """
        head_scales = scales_of(self, scales)
        return Trace(self.model, self.sentence, run=self.run, scales={**self.scales, **head_scales})

    def logits_at(self, token: int) -> Tensor:
        """(vocab): the logits at one place."""
        with torch.no_grad():
            return self.model.logits(self.model.readable(self.last[token]))

    @property
    def last(self) -> Tensor:
        """(time, d_model): the states after the final norm of the stack that the head reads."""
        return self._passes[self.side].final[0]

    def _whole(self, address: str) -> Tensor | None:
        side = self.side
        if address.startswith("encoder.") and len(self._passes) == 2:
            side, address = "encoder", address.removeprefix("encoder.")
        passed, model = self._passes[side], self.model
        match address:
            case "token_embedding":
                return model.token_embedding(passed.ids)[0]
            case "embedding":
                return model.embed(passed.ids)[0]
            case "positions" if type(passed.positions).embed is not Positions.embed:
                nothing = torch.zeros_like(model.embed(passed.ids))
                return passed.positions.embed(nothing, passed.seen)[0]
            case "final_norm":
                return passed.final[0]
            case _:
                return outputs.of(self, address) if side == self.side else None

    def _within(self, place: Address) -> Tensor | None:
        side, number, part = place.side, place.layer, place.what
        if side not in self._passes:
            return None
        if place.head is not None:
            return self._of_head(place, place.head)
        passed = self._passes[side]
        if part == "residual" and number <= len(passed.stack.blocks):
            return passed.states[number][0]
        if number >= len(passed.stack.blocks):
            return None
        name = "feed_forward.down.in" if part == "feed_forward.units" else part
        if part in ("made", "after_feed_forward") or part.startswith("feed_forward.down"):
            return None
        tensor = self.layer(side, number).tensors.get(name)
        return None if tensor is None else tensor[0]

    def _of_head(self, place: Address, head: int) -> Tensor | None:
        if place.layer >= self.n_layers(place.side):
            return None
        look = self.layer(place.side, place.layer).looks.get("cross" if place.cross else "")
        if look is None or head >= look.n_heads:
            return None
        return attention_heads.of(look, place.what, head)


def _a(kind: str) -> str:
    return f"{'an' if kind.startswith('e') else 'a'} {kind}"
