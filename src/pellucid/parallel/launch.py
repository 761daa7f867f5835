"""Joining the ranks that torchrun started, and leaving them with one message."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pellucid import config
from pellucid.errors import ConfigError
from pellucid.parallel.world import World

if TYPE_CHECKING:
    from pellucid.parallel.meeting import Meeting

#: torchrun's variables; `pellucid` needs no others.
_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
#: Seconds in which a name service has to know the host of the store.
_NAME_SECONDS = 5.0
_meeting: Meeting | None = None


def count_ranks() -> int:
    """The number of processes that were started together: torchrun's `WORLD_SIZE`, or 1.

    Raises:
        ConfigError: it is no whole number, or `RANK` is set without it.
    """
    rank = os.environ.get("RANK", "")
    if rank.isdecimal() and "WORLD_SIZE" not in os.environ and "MASTER_ADDR" in os.environ:
        raise ConfigError(
            f"RANK is {rank} and MASTER_ADDR is set, but WORLD_SIZE is not: start all ranks with "
            "torchrun, which sets them, or unset RANK"
        )
    return _whole_number("WORLD_SIZE", os.environ.get("WORLD_SIZE", "1"))


def leads() -> bool:
    """Whether this process writes and prints: it is rank 0, or alone."""
    return count_ranks() == 1 or _whole_number("RANK", os.environ.get("RANK", "")) == 0


def own_command() -> str:
    """How to start `pellucid` again with as many processes as here, for advice."""
    n_ranks = count_ranks()
    if n_ranks == 1:
        return "pellucid"
    n_local = _whole_number("LOCAL_WORLD_SIZE", os.environ.get("LOCAL_WORLD_SIZE", str(n_ranks)))
    nodes = "" if n_local in (0, n_ranks) else f"--nnodes {n_ranks // n_local} ... "
    return f"torchrun {nodes}--nproc-per-node {n_local} -m pellucid"


@contextmanager
def joined(settings: config.Parallelism) -> Generator[World]:
    """All ranks, from their first word to their last one; alone, a `World` that does nothing.

    Args:
        settings: how long to wait for the others.

    Raises:
        ConfigError: a variable of torchrun is missing, or its port is in use.
        RankLost: another rank ended or hangs.
    """
    if count_ranks() == 1:
        yield World()
        return
    from pellucid.parallel.ranks import Ranks, connected
    from pellucid.parallel.shard import ShardedRanks

    with connected(meet(), settings) as meeting:
        node = _ranks_of_node(settings)
        layout = f"shard={settings.shard}, tensor={settings.tensor}, machines of {node} ranks"
        # ranks of another layout would wait for each other in different groups
        Ranks(meeting, settings).agree("layout", lambda: layout)
        if settings.shard == "none" and settings.tensor == 1:
            yield Ranks(meeting, settings)
        else:
            yield ShardedRanks(meeting, settings, node=node)


@contextmanager
def refused_together() -> Generator[None]:
    """Within it, all ranks end with the first refusal; only one of them says it."""
    if count_ranks() == 1:
        yield
        return
    with meet().ending_together():
        yield


def meet() -> Meeting:
    """The place where the ranks of this process's group find each other.

    Raises:
        ConfigError: a variable of torchrun is missing or wrong, or its port is in use.
    """
    global _meeting
    if _meeting is None:
        missing = [name for name in _VARIABLES if not os.environ.get(name)]
        if missing:
            raise ConfigError(
                f"WORLD_SIZE is {count_ranks()}, but not set: {', '.join(missing)}; start all "
                "ranks with torchrun, which sets them, or unset WORLD_SIZE"
            )
        size, rank = count_ranks(), _whole_number("RANK", os.environ["RANK"])
        if rank >= size:
            raise ConfigError(f"RANK is {rank}, but WORLD_SIZE is {size}: ranks count from 0")
        port = _whole_number("MASTER_PORT", os.environ["MASTER_PORT"])
        # before torch is loaded: it says in ten lines of C++ that a rank has left, and we in one
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
        from pellucid.parallel.meeting import open_meeting

        host = os.environ["MASTER_ADDR"]
        _check_host(host, port)
        _meeting = open_meeting(rank, size, host, port)
    return _meeting


def _check_host(host: str, port: int) -> None:
    """Refuse the name of a machine that does not exist: torch would ask for it for minutes.

    Without the store no rank can tell the others: the first one of each machine speaks.
    """
    from pellucid.parallel.meeting import answer_in_time

    def find_problem() -> str:
        deadline = time.monotonic() + _NAME_SECONDS
        while True:
            try:
                socket.getaddrinfo(host, port)
                return ""
            except (OSError, UnicodeError) as error:
                if time.monotonic() > deadline:
                    return str(error)
            time.sleep(0.2)

    problem = answer_in_time(_NAME_SECONDS + 1, find_problem)
    if problem == "":
        return
    refusal = ConfigError(
        f"MASTER_ADDR is {host!r}, and no machine of that name was found in {_NAME_SECONDS:.0f} "
        f"seconds ({problem or 'no answer'}): give the name or the address of the machine of rank "
        f"0, with torchrun --master-addr; `getent hosts {host}` has to know it"
    )
    refusal.is_reported = os.environ.get("LOCAL_RANK", "0") != "0"
    raise refusal


def _ranks_of_node(settings: config.Parallelism) -> int:
    """The ranks of a machine, if weights are sharded within each; else all ranks."""
    if settings.shard != "node":
        return count_ranks()
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    if not text:
        raise ConfigError(
            'parallel.shard: "node" needs LOCAL_WORLD_SIZE, the ranks of each machine, which is '
            "not set: start all ranks with torchrun, which sets it"
        )
    node = _whole_number("LOCAL_WORLD_SIZE", text)
    if not node or count_ranks() % node or node % settings.tensor:
        raise ConfigError(
            f'parallel.shard: "node" with parallel.tensor={settings.tensor} cannot divide '
            f"{count_ranks()} ranks into machines of {node}: start as many ranks on each machine, "
            "a multiple of parallel.tensor"
        )
    return node


def _whole_number(name: str, text: str) -> int:
    if text.isdecimal() and (name != "WORLD_SIZE" or int(text)):
        return int(text)
    raise ConfigError(f"{name} must be a whole number, as torchrun sets it, was {text!r}")
