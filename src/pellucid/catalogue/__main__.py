"""`python -m pellucid.catalogue` lists missing and outdated translations; 0 if there are none.

A release needs 0. `python -m pellucid.catalogue ko` is about one language.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pellucid.catalogue.languages import LANGUAGES, SOURCE, faults, texts
from pellucid.errors import ExitCode


def main(arguments: Sequence[str]) -> int:
    """Print every fault on a line.

    Args:
        arguments: Languages; all translations without any.

    Returns:
        The exit code.
    """
    unknown = [name for name in arguments if name not in LANGUAGES]
    if unknown:
        print(f"error: no language {unknown[0]!r}; choose from {', '.join(LANGUAGES)}")
        return ExitCode.BAD_INPUT
    languages = arguments or [name for name in LANGUAGES if name != SOURCE]
    all_faults = [fault for name in languages if name != SOURCE for fault in faults(name)]
    for fault in all_faults:
        print(f"{fault.language} {fault.key}: {fault.kind}; {fault.help}")
    print(f"{len(texts(SOURCE))} texts, {len(all_faults)} faults in {', '.join(languages)}")
    return ExitCode.FINDINGS if all_faults else ExitCode.SUCCESS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
