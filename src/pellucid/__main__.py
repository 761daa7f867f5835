"""`python -m pellucid` is the command `pellucid`."""

import os
import sys

# `-m` puts the working folder first: a json.py in it would be run in place of the real one.
if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

from pellucid.cli import main

raise SystemExit(main())
