"""The numbers of an event under the names that every tool shows them by.

    train/loss_nats  train/grad_norm  train/log_z         one for each update
    train/learning_rate  train/tokens_per_second  train/memory_bytes  train/tokens
    held_out/loss_nats  held_out/bits_per_byte

Comes in: events. Goes out: steps with named numbers. It does not know the tools.
"""

from __future__ import annotations

from collections.abc import Iterator

from pellucid.training import events

Numbers = dict[str, float]


def numbers_of(event: events.Event) -> Iterator[tuple[int, Numbers]]:
    """The numbers of an event, step by step, in order."""
    match event:
        case events.Logged():
            first = event.step - len(event.losses) + 1
            each = zip(event.losses, event.grad_norms, event.log_z, strict=True)
            for step, (loss, norm, log_z) in enumerate(each, start=first):
                numbers: Numbers = {
                    "train/loss_nats": loss,
                    "train/grad_norm": norm,
                    "train/log_z": log_z,
                }
                if step == event.step:
                    numbers |= _of_the_report(event)
                yield step, numbers
        case events.Evaluated():
            yield (
                event.step,
                {
                    "held_out/loss_nats": event.loss_nats,
                    "held_out/bits_per_byte": event.bits_per_byte,
                },
            )
        case _:
            return


def _of_the_report(event: events.Logged) -> Numbers:
    numbers: Numbers = {
        "train/learning_rate": event.learning_rate,
        "train/tokens_per_second": event.tokens_per_second,
        "train/tokens": float(event.tokens),
    }
    if event.memory_bytes is not None:
        numbers["train/memory_bytes"] = float(event.memory_bytes)
    return numbers
