"""All faults, by name. It knows no more of them."""

from __future__ import annotations

from benchmarks.diagnosis.elsewhere.faults import batches, preferences, rates, updates
from benchmarks.diagnosis.elsewhere.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (*updates.FAULTS, *rates.FAULTS, *batches.FAULTS, *preferences.FAULTS)
KINDS: tuple[str, ...] = tuple(dict.fromkeys(fault.name for fault in FAULTS))
