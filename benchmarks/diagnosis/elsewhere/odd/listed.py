"""All healthy but odd ways to train. It knows no more of them."""

from __future__ import annotations

from benchmarks.diagnosis.elsewhere.faults.fault import Fault
from benchmarks.diagnosis.elsewhere.odd import loops, numbers

#: They have the form of faults.
ODD: tuple[Fault, ...] = (*numbers.ODD, *loops.ODD)
