"""The rounds of a store that outlives the ranks: torchrun starts ranks again with the same store.

What the ranks of an earlier start left there, such as a refusal, must not be heard again.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any
from uuid import uuid4

from torch import distributed

#: torch gives its stores no types.
_torch: Any = distributed


def enter_round(store: Any, rank: int, size: int, *, seconds: float) -> Any:
    """The part of a store that only the ranks of this start use.

    Each rank writes a token that nobody has used before; rank 0 answers each with the round's name.

    Args:
        store: of torchrun.
        rank: of this process.
        size: how many processes there are.
        seconds: how long to wait for rank 0.

    Raises:
        RuntimeError: rank 0 does not answer.
    """
    token = uuid4().hex
    if rank == 0:
        arguments = store.clone(), token, size
        threading.Thread(target=_answer_tokens, args=arguments, daemon=True).start()
        return _torch.PrefixStore(token, store)
    store.set(f"token/{rank}", token)
    deadline = time.monotonic() + seconds
    while not store.check([f"round/{token}"]):
        if time.monotonic() > deadline:
            raise RuntimeError("rank 0 does not answer")
        time.sleep(0.05)
    own_part = _torch.PrefixStore(store.get(f"round/{token}").decode(), store)
    own_part.set(f"entered/{rank}", "")
    return own_part


def _answer_tokens(store: Any, name: str, size: int) -> None:
    """Tell each rank the name of the round, until all have entered it."""
    own_part = _torch.PrefixStore(name, store)
    with suppress(RuntimeError):  # the store is gone
        while not own_part.check([f"entered/{rank}" for rank in range(1, size)]):
            for rank in range(1, size):
                if store.check([f"token/{rank}"]):  # perhaps of an earlier start: that harms nobody
                    store.set(f"round/{store.get(f'token/{rank}').decode()}", name)
            time.sleep(0.05)
