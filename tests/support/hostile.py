"""Damaged and absurd input, by fixed seeds; and what must hold whatever is read."""

from __future__ import annotations

import random
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pellucid.cli import main

HUGE = [
    b"9" * 5000, b"-1", b"1e999", b"NaN", b"Infinity", b"null", b"[]", b"{}", b"[" * 3000,
    b'{"a":' * 3000, b"\xff\xfe\x00", b"\x00", b'"\\ud800"', b"1e30", b"true", b"999999999999",
]  # fmt: skip


def damaged(content: bytes, chance: random.Random) -> bytes:
    """The same, cut off, with bits turned, pieces doubled or values of other kinds."""
    data = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        offset = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                del data[offset:]
            case 1 if offset < len(data):
                data[offset] ^= 1 << chance.randrange(8)
            case 2:
                data[offset:offset] = data[offset : offset + chance.randrange(50)]
            case 3:
                data[offset : offset + chance.randrange(8)] = chance.choice(HUGE)
            case _:
                digits = [i for i, byte in enumerate(data) if chr(byte).isdigit()]
                if digits:
                    place = chance.choice(digits)
                    data[place : place + 1] = chance.choice(HUGE)
    return bytes(data)


def ends(words: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    try:
        code = int(main(words))
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    assert code in (0, 2, 3, 4), (words, captured.err)
    assert "Traceback" not in captured.err + captured.out, words
    return code


#: Bytes that reading an absurd input may take beyond the memory of the process.
MOST = 400 * 2**20


@contextmanager
def bounded_memory(most: int = MOST) -> Generator[None]:
    """Fail if the process needs at any moment so many bytes more than at the start.

    Where the kernel does not tell (it is Linux's), nothing is checked.
    """
    if sys.platform != "linux":
        yield
        return
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _resident("VmRSS")
    yield
    extra_bytes = _resident("VmHWM") - before
    assert extra_bytes < most, f"{extra_bytes / 1e6:,.0f} MB more were in use"


def _resident(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))
