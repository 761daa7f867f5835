"""The probe of a loop's own call: signs of what it reads, predicts and is paid for.

It repeats the call a few times, on a few of its rows, and compares outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.training import Guard
from pellucid.vitals.call import (
    decoder_rows,
    documents,
    padding_mask,
    place_classes,
    target_rows,
    text_rows,
)
from pellucid.vitals.call.alignment import (
    Alignment,
    alignment,
    count_changed,
    foreign,
    is_masked,
    is_unmasked,
    of_whole_batch,
    places_to_change,
    unrelated,
)
from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.dependence import (
    Repetition,
    are_of_rows,
    change,
    has_places,
    with_changes,
    with_other_rows,
    without_padding,
)
from pellucid.vitals.call.paid_targets import PaidTargets
from pellucid.vitals.call.positions import PositionNotes, early_targets
from pellucid.vitals.call.reading_order import LayoutNotes
from pellucid.vitals.call.soft_targets import measure_choice

#: A loss on at least so many places is one on all tokens.
_DENSE = 0.9
#: In half precision, a single score near 0 changes by as much of its size by rounding.
_POOLED = 0.5


@dataclass(frozen=True, slots=True)
class FirstCall:
    """The first call of a training.

    Attributes:
        arguments: Its arguments, cut to a few rows.
        tokens: The ids that the outputs follow, of these rows; None if it has none.
        ids: All rows of its ids; None if it has none.
        paid: The targets that the loss pays for; None if unknown.
    """

    arguments: Arguments
    tokens: Tensor | None
    ids: Tensor | None
    paid: PaidTargets | None


class CallProbe:
    """Measures the signs of one call.

    Args:
        call: The call.
        repeat: Repeats it.
        guard: Switches off a test that raises, and no other.
        passes: How many forward passes it may take.
    """

    def __init__(self, call: FirstCall, repeat: Repetition, guard: Guard, passes: int) -> None:
        self._call = call
        self._repeat = repeat
        self._guard = guard
        self._passes = passes
        self._signs: dict[str, float] = {}

    def measure(self) -> dict[str, float]:
        """The signs by their ids; those that this call cannot have are missing."""
        call, arguments = self._call, self._call.arguments
        self._add("the paid targets", self._read_targets)
        targets = None if call.paid is None else call.paid.all
        rows = partial(target_rows.measure, arguments, *self._tokens_and_targets(), targets)
        self._add("targets.shared", rows)
        self._add("the mask of padding", partial(padding_mask.measure, arguments))
        if call.ids is not None and call.ids.ndim == 2:
            self._add("batch.*", partial(text_rows.measure, arguments, call.ids, targets))
        if self._may_take(2):
            self._add("call.inputs", self._measure_dependence)
        if arguments.source is not None and self._may_take(2):
            self._add("call.source", self._measure_source)
        if arguments.inputs.ndim == 2 and self._repeat.takes_mask() and self._may_take(2):
            self._add("call.padding", self._measure_padding)
        if self._may_take(2):
            test = partial(padding_mask.forgotten_rows, arguments, self._repeat)
            self._add("call.forgotten", test)
        if arguments.inputs.ndim == 2 and arguments.source is None and self._may_take(2):
            self._add("call.documents", self._measure_documents)
        if self._signs.get("call.rows") == 0 and self._may_take(2):
            self._add("call.row_order", partial(self._repeat.move_of_order, arguments))
        return self._signs

    def _may_take(self, passes: int) -> bool:
        return self._repeat.passes + passes <= self._passes

    def _add(self, part: str, test: Callable[[], dict[str, float]]) -> None:
        self._signs |= self._guard(part, test) or {}

    def _read_targets(self) -> dict[str, float]:
        """What the labels and the gradient of the logits say, without a forward pass."""
        arguments, paid = self._call.arguments, self._call.paid
        share = target_rows.unpaid_rows(arguments, paid)
        signs = {} if share is None else {"targets.unpaid_rows": share}
        if paid is not None:
            signs |= paid.signs() | place_classes.measure(arguments, self._call.ids, paid)
        return signs

    # ---- other inputs, other outputs

    def _measure_dependence(self) -> dict[str, float]:
        """Change each row but the last from some place on; the last of several has to stay."""
        arguments = self._call.arguments
        tokens, targets = self._tokens_and_targets()
        aligned = None if tokens is None else alignment(tokens, cast("Tensor", targets))
        inputs = arguments.inputs
        places = places_to_change(inputs, tokens, targets, aligned) if has_places(inputs) else None
        variant = with_other_rows(arguments, places)
        texts = (inputs, arguments.tensor(arguments.source))
        positions, masks = PositionNotes(*texts), padding_mask.KeyMaskNotes(*texts)
        layout = LayoutNotes(inputs, self._call.ids)
        with self._repeat.noting(positions.note, masks.note, layout.note):
            before = self._repeat(arguments)
        noted = positions.signs() | masks.signs() | layout.signs()
        if before is None or variant is None or len(before) != len(inputs):
            return noted
        after = self._repeat(variant)
        if after is None or after.shape != before.shape or not bool(torch.isfinite(before).all()):
            return noted
        changes = change(before, after)
        id, random = self._repeat.randomness(arguments, before) if self._may_take(1) else ("", 0.0)
        if self._repeat.over_rounding(random):
            return noted | {id: random}
        signs = noted | target_rows.judge_outputs(arguments, tokens, targets, before)
        n_changed = count_changed(inputs)
        largest_change = float(changes[:n_changed].max())
        if not largest_change and places is not None and self._may_take(2):
            move = partial(self._repeat.move_of_rows, arguments, before, n_changed)
            largest_change = move(0)
            signs |= self._drop_hidden({"call.rest": move(1)}) if before.ndim == 2 else {}
        signs |= self._drop_hidden({"call.inputs": largest_change})
        if self._repeat.mixes_rows or len(inputs) == 1:
            return signs
        is_clear = arguments.is_of_model or (aligned is not None and aligned.is_clear)
        if is_clear or are_of_rows(before, inputs, self._call.ids):
            signs["call.rows"] = self._repeat.over_rounding(float(changes[-1].max()))
        if changes.ndim == 2 and changes.shape[1] > inputs.shape[1] and places:
            starts = [first for first, _, _ in places]
            signs |= early_targets(self._call.tokens, self._call.paid, starts, changes)
        if changes.ndim == 2 and changes.shape[1] == inputs.shape[1] and places:
            signs |= self._judge_targets(tokens, targets, aligned, changes, places, before)
            if aligned is not None and aligned.follows and self._may_take(1):
                past = self._repeat.move_of_later(arguments, before, [f for f, _, _ in places])
                signs |= {} if past is None else self._drop_hidden({"call.past": past})
        return signs

    def _judge_targets(
        self,
        tokens: Tensor | None,
        targets: Tensor | None,
        aligned: Alignment | None,
        changes: Tensor,
        places: list[tuple[int, int, int]],
        before: Tensor,
    ) -> dict[str, float]:
        """What the outputs depend on, where that makes a target readable or hides its context."""
        arguments = self._call.arguments
        earlier = [changes[row, :first] for row, (first, _, _) in enumerate(places) if first]
        future = self._repeat.over_rounding(max((float(e.max()) for e in earlier), default=0.0))
        if tokens is None or targets is None or aligned is None:
            return {}
        if aligned.is_clear:
            read = [float(changes[row, place]) for row, (_, _, place) in enumerate(places)]
            signs = self._aligned(aligned, self._repeat.over_rounding(max(read)), future)
            return signs if "targets.unmasked" not in signs or is_unmasked(tokens, targets) else {}
        if self._is_masked(tokens, targets):
            movement = future or self._move_of_later(before, [first for first, _, _ in places])
            signs = {"targets.padding": target_rows.paid_padding(arguments, tokens, targets)}
            return signs | self._drop_hidden({"call.right": future} if movement else {})
        if future and arguments.source is None:
            padding = target_rows.any_padding(arguments, tokens, targets, self._call.paid)
            strange = foreign(tokens, targets, arguments.tensor(arguments.mask))
            return {"targets.padding": padding, "targets.foreign": strange}
        if future or arguments.source is not None:
            return {}
        paid, ids = self._call.paid, self._call.ids
        signs = measure_choice(arguments, ids, paid, before)
        if float((targets != IGNORED).double().mean()) < _DENSE:
            return signs
        signs |= {"targets.strange": 1 - aligned.share} if aligned.is_partial else {}
        if paid and ids is not None:
            signs |= of_whole_batch(ids, paid.all)
        if paid is not None and paid.unbalanced is not None:  # inputs and outputs are of one kind
            signs["targets.unrelated"] = unrelated(tokens, targets)
        return signs

    def _is_masked(self, tokens: Tensor, targets: Tensor) -> bool:
        """Whether tokens are masked, by all rows; one place on if a causal model guesses them."""
        ids, paid, source = self._call.ids, self._call.paid, self._call.arguments.source
        if source is None and ids is not None and paid is not None and ids.shape == paid.all.shape:
            tokens, targets = ids, paid.all
        return is_masked(tokens, targets) or is_masked(tokens[:, 1:], targets[:, :-1])

    def _move_of_later(self, before: Tensor, starts: list[int]) -> float:
        move = partial(self._repeat.move_of_later, self._call.arguments, before, starts)
        return self._repeat.over_rounding((move() if self._may_take(1) else None) or 0.0)

    def _aligned(self, aligned: Alignment, read: float, future: float) -> dict[str, float]:
        """Signs of targets that the inputs hold, by their offset."""
        if aligned.offset == 1:
            return {"call.future": read}
        if aligned.offset > 1:
            return {"targets.skipped": aligned.share} if not read else {"call.future": read}
        if not read:
            return {}  # the model moves its inputs
        return {"targets.unmasked" if future else "targets.unmoved": aligned.share}

    def _drop_hidden(self, signs: dict[str, float]) -> dict[str, float]:
        """The signs; without a change of 0 if weights of zero hide a part of the model."""
        return {id: v for id, v in signs.items() if v > 0 or not self._repeat.starts_at_zero}

    # ---- an encoder, and padding

    def _measure_source(self) -> dict[str, float]:
        """Whether outputs depend on the encoder's text, and which of both texts is paid for."""
        arguments = self._call.arguments
        source = arguments.tensor(arguments.source)
        if source is None or arguments.source is None or source.is_floating_point():
            return {}
        variant = with_changes(arguments, arguments.source, torch.ones_like(source).bool())
        before, after = self._repeat(arguments), None if variant is None else self._repeat(variant)
        changes = None if before is None or after is None else change(before, after)
        signs = {} if changes is None else {"call.source": float(changes.max())}
        rows = (source, *self._tokens_and_targets(), self._call.paid)
        return self._drop_hidden(signs) | decoder_rows.measure(arguments, *rows)

    def _measure_padding(self) -> dict[str, float]:
        """Whether outputs are the same without the padding at the end of a row."""
        arguments = self._call.arguments
        if (padding := text_rows.most_padded(arguments)) is None:
            return {}
        row, time, length = padding
        single_row = arguments.with_rows(torch.tensor([row]))
        padded = self._repeat(single_row)
        # a model that reads one place of a row may find it by the ids of padding
        is_placed = padded is not None and padded.ndim == 3
        unpadded = without_padding(
            single_row, time, length, is_half=self._repeat.is_half and is_placed
        )
        bare = self._repeat(unpadded)
        if padded is None or bare is None:
            return {}
        if padded.ndim == 3 and arguments.source is None:
            padded, bare = padded[:, :length], bare[:, :length]
        if padded.shape != bare.shape:
            return {}
        largest_change = self._repeat.over_rounding(float(change(padded, bare).max()))
        is_known = is_placed or not self._repeat.is_half or largest_change > _POOLED
        return {"call.padding": largest_change if is_known else 0.0}

    def _measure_documents(self) -> dict[str, float]:
        """How far a document moves when only those before it in its row change."""
        arguments = self._call.arguments
        tokens, targets = self._tokens_and_targets()
        if tokens is None or targets is None or self._repeat.mixes_rows:
            return {}
        paid = self._call.paid
        if paid is not None and paid.single is not None and not paid.names_targets:
            return {}  # a teacher's places with several targets look left out
        return self._drop_hidden(documents.measure(arguments, self._repeat, tokens, targets))

    def _tokens_and_targets(self) -> tuple[Tensor | None, Tensor | None]:
        """Ids and targets of the rows, if the outputs follow the ids place by place."""
        paid, tokens = self._call.paid, self._call.tokens
        if paid is None or tokens is None or paid.rows.shape != tokens.shape:
            return None, None
        return tokens, paid.rows
