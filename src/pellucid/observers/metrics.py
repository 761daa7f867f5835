"""What all observers share: the names of an event's numbers, and the missing package.

    train/loss_nats  train/grad_norm  train/log_z         one for each update, and every other part
                                                          of the loss by its name
    train/learning_rate  train/tokens_per_second  train/memory_bytes  train/tokens
    held_out/loss_nats  held_out/bits_per_byte            and every other measure by its name
    vitals/attention.max_logit                            and every other vital sign by its id
    vital_words/softmax                                   0 calm, 1 watch, 2 sick

If the loss is a mean over pairs, pairs are counted: train/pairs_per_second, train/pairs.
"""

from __future__ import annotations

from collections.abc import Iterator

from pellucid.training import events

Numbers = dict[str, float]

_LEVELS = {"calm": 0.0, "watch": 1.0, "sick": 2.0}


def numbers_of(event: events.Event) -> Iterator[tuple[int, Numbers]]:
    """The numbers of an event, step by step, in order."""
    match event:
        case events.Logged():
            first = event.step - len(event.losses) + 1
            for i, (loss, norm) in enumerate(zip(event.losses, event.grad_norms, strict=True)):
                numbers: Numbers = {"train/loss_nats": loss, "train/grad_norm": norm}
                numbers |= {f"train/{name}": values[i] for name, values in event.parts}
                if first + i == event.step:
                    numbers |= _report_numbers(event)
                yield first + i, numbers
        case events.Evaluated():
            measured = {f"held_out/{name}": value for name, value in event.measures}
            yield event.step, {"held_out/loss_nats": event.loss_nats, **measured}
        case events.Vitals():
            words = {f"vital_words/{name}": _LEVELS[word] for name, word in event.rows if word}
            yield event.step, {f"vitals/{id}": value for id, _, value, *_ in event.signs} | words
        case _:
            return


def _report_numbers(event: events.Logged) -> Numbers:
    numbers: Numbers = {
        "train/learning_rate": event.learning_rate,
        f"train/{event.unit}_per_second": event.tokens_per_second,
        f"train/{event.unit}": float(event.tokens),
    }
    if event.memory_bytes is not None:
        numbers["train/memory_bytes"] = float(event.memory_bytes)
    for rank, (speed, waiting, memory) in enumerate(event.ranks):
        numbers[f"rank_{rank}/{event.unit}_per_second"] = speed
        if waiting is not None:
            numbers[f"rank_{rank}/waiting_seconds"] = waiting
        if memory is not None:
            numbers[f"rank_{rank}/memory_bytes"] = float(memory)
    return numbers
