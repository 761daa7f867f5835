"""Words in, calls out. It knows no formula."""

from pellucid.signals import ENDING, end_at_once, handled

# all verbs take a moment to load: Ctrl-C meanwhile is no error that needs a traceback
with handled(ENDING, end_at_once):
    from pellucid.cli.main import main

__all__ = ["main"]
