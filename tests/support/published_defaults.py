"""What a missing attribute of a `config.json` means to `transformers`, family by family.

Comes in: the configs of the installed `transformers`. Goes out: `published_defaults.json` in the
folder of the tests of `checkpoints`. Run `PYTHONPATH=tests python -m support.published_defaults` to
write it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pellucid.checkpoints.huggingface import FAMILIES

FILE = Path(__file__).parents[1] / "checkpoints" / "published_defaults.json"


def published_defaults() -> dict[str, dict[str, Any]]:
    """By family, the default of each attribute that has a rule and one plain value."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    tables: dict[str, dict[str, Any]] = {}
    for family in FAMILIES.values():
        defaults = CONFIG_MAPPING[family.model_type]().to_dict()
        tables[family.model_type] = {
            name: defaults[name]
            for name in sorted(family.rules)
            if name in defaults and isinstance(defaults[name], bool | int | float | str | None)
        }
    return dict(sorted(tables.items()))


def main() -> None:
    """Write the file, a line for each family."""
    lines = [f"{json.dumps(name)}: {json.dumps(t)}" for name, t in published_defaults().items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
