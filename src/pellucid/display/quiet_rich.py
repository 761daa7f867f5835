"""Loads rich and leaves Python's random generator as it was: rich's first styles draw from it.

A loop may seed the generator before it imports pellucid, and has to get the same numbers.
"""

import random
from importlib import import_module

_state = random.getstate()
import_module("rich.console")
random.setstate(_state)
