"""The store where ranks find each other: signs of life, announcements and refusals.

torchrun keeps the store; without torchrun, rank 0 does. Everything here works without a process
group, so also while rank 0 prepares a run, and after a group has broken.
"""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

from torch import distributed

from pellucid import errors
from pellucid.errors import ConfigError, ExitCode, Interrupted, PellucidError, RankLost
from pellucid.json_text import json_text
from pellucid.parallel.heartbeat import BEAT_SECONDS, LEFT, Heartbeat, beats_of
from pellucid.parallel.rounds import enter_round
from pellucid.reader import parse_json, short

Answer = TypeVar("Answer")
#: torch gives this room few types.
_torch: Any = distributed
#: How long ranks wait for each other to start.
_START = timedelta(minutes=5)
#: How long a rank that ends waits until rank 0 has said why.
_LAST_WORDS = 20.0
#: How long rank 0, if it keeps the store, stays until the others have left.
_FAREWELL = 5.0


def open_meeting(rank: int, size: int, host: str, port: int) -> Meeting:
    """Open the store that torchrun keeps, or keep one if no torchrun does.

    Args:
        rank: of this process.
        size: how many processes there are.
        host: the address of the store.
        port: its port.

    Raises:
        ConfigError: no process answers there, or the port is in use.
    """

    def open_store() -> Any:
        url = f"env://?rank={rank}&world_size={size}"
        try:
            store = next(_torch.rendezvous(url, timeout=_START))[0]
            if not _is_store_of_torchrun():
                return store
            return enter_round(store, rank, size, seconds=_START.total_seconds())
        except (RuntimeError, ValueError) as error:
            return error

    # torch waits for ever if another program has the port and does not answer
    store = answer_in_time(_START.total_seconds() + 5, open_store)
    if store is None or isinstance(store, Exception):
        reason = "no answer" if store is None else str(store).splitlines()[0][:200]
        raise ConfigError(
            f"rank {rank} of {size} cannot meet the others at {host}:{port} ({reason}): another "
            "program may use the port, or not all ranks were started; choose another one with "
            "torchrun --master-port"
        )
    return Meeting(store, rank, size)


class Meeting:
    """The ranks of one start.

    Args:
        store: keys and texts that all ranks share.
        rank: of this process.
        size: how many processes there are.
    """

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self.store = store
        self.rank = rank
        self.size = size
        self.groups = 0
        self._describe: Callable[[], str] = str
        self._is_cut = False
        self._depth = 0
        self.heartbeat = Heartbeat(store.clone(), rank, size, lost=self._end_hung)
        self.heartbeat.start()

    @contextmanager
    def describing(self, describe: Callable[[], str]) -> Generator[None]:
        """Within it, the message of a lost rank ends with `describe()`."""
        self._describe = describe
        yield
        self._describe = str  # not after an error: its message still needs the description

    def wait(self, key: str) -> Any:
        """Wait for a value that another rank announces; signals are heard meanwhile.

        Raises:
            PellucidError: a rank refused in the meantime.
        """
        while not self.store.check([key]):
            self._raise_refusal()
            time.sleep(0.05)
        return parse_json(self.store.get(key).decode(), key)

    def assemble(self) -> None:
        """Wait until all ranks have come this far: torch's groups do not hear a refusal.

        Raises:
            PellucidError: a rank refused meanwhile, or did not come.
        """
        self.groups += 1
        keys = [f"arrived/{self.groups}/{rank}" for rank in range(self.size)]
        self.store.set(keys[self.rank], str(self.size))
        deadline = time.monotonic() + _START.total_seconds()
        while not self.store.check(keys):
            self._raise_refusal()
            if time.monotonic() > deadline:
                missing = next(n for n, key in enumerate(keys) if not self.store.check([key]))
                raise ConfigError(
                    f"rank {missing} of {self.size} did not come within {_START.seconds} seconds: "
                    "start all ranks with the same command, and the same WORLD_SIZE"
                )
            time.sleep(0.05)
        sizes = [int(size) for size in self.store.multi_get(keys)]
        for rank, size in enumerate(sizes):
            if size != self.size:
                raise ConfigError(
                    f"WORLD_SIZE is {self.size} on rank {self.rank} and {size} on rank {rank}: "
                    "start all ranks with torchrun, which sets it"
                )

    def publish(self, key: str, value: object) -> None:
        """Announce a value."""
        self.store.set(key, json_text(value))

    @contextmanager
    def ending_together(self) -> Generator[None]:
        """Within it, all ranks end with the first error of any; one rank says it.

        Only the outermost one acts: on the way to it, an error may get better words.
        """
        self._depth += 1
        try:
            yield
        except Exception as error:
            if self._depth > 1:
                raise
            if isinstance(error, PellucidError):
                self._agree_on_speaker(error)
                raise
            if _is_of_collective(error):
                refusal = self._explain(error)
                self._agree_on_speaker(refusal)
                raise refusal from None
            # a mistake in code: this rank shows where, the others leave
            text = f"rank {self.rank} of {self.size} failed: {type(error).__name__}: {error}"
            self._record(PellucidError(text))
            self.publish("told", value=True)
            raise
        finally:
            self._depth -= 1

    def _explain(self, error: Exception) -> PellucidError:
        """What a failed collective means: a lost rank, or a refusal of one that is leaving."""
        _ignore_sigterm()  # torchrun ends the others when one has died: first say what happened
        answer = answer_in_time(_LAST_WORDS, lambda: self._ask_why(error))
        return self._unreachable() if answer is None else answer

    def _unreachable(self) -> RankLost:
        """The store does not answer: the cable to its machine, or the machine, is gone."""
        self._is_cut = True
        return self._lost([], "the store of the ranks does not answer")

    def _ask_why(self, error: Exception) -> PellucidError:
        try:
            before = beats_of(self.store, self.size)
            deadline = time.monotonic() + 3 * BEAT_SECONDS
            while time.monotonic() < deadline:
                if self.store.check(["refused"]):
                    return self._read_refusal()
                time.sleep(0.1)
            after = beats_of(self.store, self.size)
        except RuntimeError:  # without torchrun the store ends with rank 0, which keeps it
            return self._lost([0])
        others = set(range(self.size)) - {self.rank}
        return self._lost([n for n in sorted(others) if after[n] == before[n]], str(error))

    def _lost(self, ranks: list[int], reason: str = "") -> RankLost:
        if ranks:
            names = " and ".join(map(str, ranks))
            text = f"rank {names} of {self.size} {'is' if len(ranks) == 1 else 'are'} gone"
        else:
            text = f"rank {self.rank} of {self.size} lost touch of the others ({short(reason)})"
        error = RankLost(text + self._describe())
        error.ranks = tuple(ranks)
        return error

    def _raise_refusal(self) -> None:
        if self.store.check(["refused"]):
            raise self._read_refusal()

    def _read_refusal(self) -> PellucidError:
        refusal = parse_json(self.store.get("refused").decode(), "refused")
        kind = getattr(errors, refusal["kind"], PellucidError)
        error = kind.__new__(kind)
        PellucidError.__init__(error, refusal["message"])
        error.exit_code = ExitCode(refusal["code"])
        if isinstance(error, Interrupted):
            error.signal = refusal["signal"]
        return error

    def _agree_on_speaker(self, error: PellucidError) -> None:
        """Let one rank say the error, the first one that is not lost; the others wait for it."""
        _ignore_sigterm()  # this rank is leaving
        lost = error.ranks if isinstance(error, RankLost) else ()
        speaker = min(set(range(self.size)) - set(lost))
        error.is_reported = False
        if not self._is_cut:
            answer_in_time(_LAST_WORDS + 5, lambda: self._tell_others(error, speaker))
        self.heartbeat.stop()
        if self.rank == 0 and not self._is_cut and not _is_store_of_torchrun():
            # the store ends with this process, and the others still read there why
            others = self.size - 1 - len(lost)
            answer_in_time(_FAREWELL, lambda: self._wait_for_leaving(others))

    def _tell_others(self, error: PellucidError, speaker: int) -> None:
        with suppress(RuntimeError):  # the store is gone with its rank
            self._record(error)
            if self.rank == speaker:
                self.publish("told", value=True)
            else:
                error.is_reported = self._wait_for_last_words()

    def _wait_for_leaving(self, others: int) -> None:
        with suppress(RuntimeError):
            while beats_of(self.store, self.size, first=1).count(LEFT) < others:
                time.sleep(0.05)

    def _record(self, error: PellucidError) -> None:
        facts = {
            "kind": type(error).__name__,
            "message": str(error),
            "code": int(error.exit_code),
            "signal": error.signal if isinstance(error, Interrupted) else 0,
        }
        self.store.compare_set("refused", "", json_text(facts))

    def _wait_for_last_words(self) -> bool:
        deadline = time.monotonic() + _LAST_WORDS
        while time.monotonic() < deadline:
            if self.store.check(["told"]):
                time.sleep(0.5)  # the first one to leave ends all, if torchrun started them
                return True
            time.sleep(0.05)
        return False

    def _end_hung(self, rank: int | None) -> None:
        """End this process, whose main thread waits for a rank that hangs, or for the store."""
        error = self._unreachable() if rank is None else self._lost([rank])
        self._agree_on_speaker(error)
        if not error.is_reported:
            print(textwrap.fill(f"error: {error}", 96), file=sys.stderr, flush=True)
        os._exit(error.exit_code)


def answer_in_time(seconds: float, call: Callable[[], Answer]) -> Answer | None:
    """What the call gives; None if it takes longer, as a store behind a pulled cable does."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else None


def _is_of_collective(error: Exception) -> bool:
    """Whether a collective failed, and not the code of this rank; gloo has no kind of its own."""
    marks = ("gloo", "nccl", "connection closed", "connection reset", "timed out")
    is_error = isinstance(error, RuntimeError | distributed.DistError)
    return is_error and any(mark in str(error).lower() for mark in marks)


def _is_store_of_torchrun() -> bool:
    """Whether torchrun keeps the store: it lives longer than the ranks."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _ignore_sigterm() -> None:
    with suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
