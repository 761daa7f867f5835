"""Fixes of a foreign loop, made from outside: hooks on its optimiser and its model."""

from pellucid.diagnosis.fixes.loop.calls import CALL_FIXES
from pellucid.diagnosis.fixes.loop.change import LoopChange
from pellucid.diagnosis.fixes.loop.optimiser import OPTIMISER_FIXES
from pellucid.diagnosis.fixes.loop.weights import WEIGHT_FIXES

LOOP_FIXES = {**OPTIMISER_FIXES, **WEIGHT_FIXES, **CALL_FIXES}

__all__ = ["LOOP_FIXES", "LoopChange"]
