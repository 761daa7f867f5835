"""A sentence as text: its tokens with their surprisals, or an audit of all its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pellucid.cli.output.printing import cut
from pellucid.explain.addresses.audit import Audit
from pellucid.explain.chapter_types import Difference

if TYPE_CHECKING:
    from pellucid.explain.token_predictions import Reading

#: Numbers that differ, at most, that are written out for people.
_SHOWN = 10


def audit_facts(audit: Audit) -> dict[str, Any]:
    """Every count, every address that differs, and what nothing is computed for."""
    return {
        "agrees": audit.agrees,
        "numbers": audit.numbers,
        "agreeing": audit.agreeing,
        "kinds": [asdict(kind) for kind in audit.kinds],
        "differing": [asdict(difference) for difference in audit.differing],
        "ends": [{"address": address, "reason": reason} for address, reason in audit.ends],
    }


def audit_lines(audit: Audit) -> Iterator[str]:
    """A line for each kind of address, then the numbers that differ."""
    width = max(len("address"), *(len(kind.address) for kind in audit.kinds))
    yield f"{'address':<{width}} {'numbers':>12} {'agree':>12}"
    for kind in audit.kinds:
        mark = "" if kind.numbers == kind.agreeing else "  ≠ differs"
        yield f"{kind.address:<{width}} {kind.numbers:>12,} {kind.agreeing:>12,}{mark}"
    yield ""
    for address, reason in audit.ends:
        yield f"{address}: {reason}"
    yield ""
    yield f"{audit.agreeing:,} of {audit.numbers:,} numbers agree with what their operands give"
    for difference in audit.differing[:_SHOWN]:
        yield f"≠ {_describe(difference)}"
    if len(audit.differing) > _SHOWN:
        yield f"and {len(audit.differing) - _SHOWN:,} addresses more: see --json"


def _describe(difference: Difference) -> str:
    apart = abs(difference.model - difference.recomputed)
    return (
        f"{difference.address}: the model has {difference.model:.9g}, its operands give "
        f"{difference.recomputed:.9g}: {apart:.0e} apart, {difference.allowed:.0e} allowed"
    )


def reading_lines(reading: Reading) -> Iterator[str]:
    """A line per token, what would follow, and the bits of all."""
    width = min(18, max(len(repr(token.token)) for token in reading.tokens))
    yield f"{'':>4} {'token':<{width}} {'p':>7} {'bits':>6}  expected"
    for token in reading.tokens:
        yield (
            f"{token.position:>4} {cut(repr(token.token), width):<{width}} "
            f"{token.probability:>7.4f} {token.surprisal_bits:>6.2f}  "
            f"{_format_expected(token.expected)}"
        )
    n = len(reading.tokens)
    yield f"{'':>4} {'then':<{width}} {'':>7} {'':>6}  {_format_expected(reading.follows)}"
    yield (
        f"\n{reading.bits:.2f} bits for {n} tokens, {reading.bits / n:.2f} each "
        f"(guessing: {reading.guessing_bits:.2f})"
    )


def _format_expected(expected: tuple[tuple[str, float], ...]) -> str:
    return "  ".join(f"{cut(repr(token), 12)} {p:.2f}" for token, p in expected)
