"""Build the documentation as a site of files: `python -m docs.site`, with the extra `docs`.

Pages are gathered into `build/pages`, zensical turns them into `build/site`, and every link and
anchor of the result is followed. A warning or a dead link fails.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

from docs.site.links import dead_links
from docs.site.reference import write
from docs.site.stage import ROOT, stage

PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"


def main() -> None:
    if find_spec("zensical") is None:
        raise SystemExit("the site needs zensical and mkdocstrings: pip install -e '.[docs]'")
    stage(PAGES)
    write(PAGES)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    built = subprocess.run(command, cwd=ROOT)
    if built.returncode:
        raise SystemExit(built.returncode)
    if dead := dead_links(SITE):
        raise SystemExit("\n".join([f"{len(dead)} dead links:", *dead]))
    size = sum(file.stat().st_size for file in SITE.rglob("*") if file.is_file())
    print(f"{SITE}: {size / 1e6:.1f} MB, no dead link")


if __name__ == "__main__":
    main()
