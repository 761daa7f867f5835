"""Words in, calls out.

Must not know: formulas.
"""

from pellucid.signals import ENDING as _ENDING
from pellucid.signals import end_at_once as _end_at_once
from pellucid.signals import handled as _handled

# all verbs take a moment to load: Ctrl-C meanwhile is no error that needs a traceback
with _handled(_ENDING, _end_at_once):
    from pellucid.cli.main import main

__all__ = ["main"]
