"""How often is the diagnosis right on loops that others write, at its default settings?

    python -m benchmarks.diagnosis.elsewhere --split tune --sample 40 --data FOLDER
    python -m benchmarks.diagnosis.elsewhere --split test --data FOLDER --save

Tiny models of transformers are trained in the styles in which people write loops, some with a
mistake in the loop's code, some healthy but odd. `watch` or the callback looks on, with default
settings (`--rate default`) or without a bound to its time (`--rate full`). A mistake counts if the
model ends worse than its healthy twin, on held-out text, by more than a margin. Runs that are done
are not done again; a run is done anew if code, thresholds or text have changed.

Comes in: a folder with public data sets, or none. Goes out: a record for each training under
`--out`, numbers, and with `--save` a dated file under benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.diagnosis.elsewhere.cases import SEEDS, cases, one_of_each
from benchmarks.diagnosis.elsewhere.recording import digests, read, record_all
from benchmarks.diagnosis.elsewhere.results import format_results, results
from benchmarks.machine import machine
from pellucid.machine import installed_versions

_RESULTS = Path(__file__).parents[2] / "results"
PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "accelerate",
    "lightning",
    "peft",
    "datasets",
    "tokenizers",
    "numpy",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.diagnosis.elsewhere",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--split", choices=("tune", "test"), default="tune")
    parser.add_argument("--rate", choices=("default", "full"), default="default")
    parser.add_argument("--sample", type=int, metavar="N", help="the first N, which are a fair mix")
    parser.add_argument("--each", action="store_true", help="one of each kind, with its twin")
    parser.add_argument("--seeds", type=int, nargs="+", help="of --each; by default the first one")
    parser.add_argument("--only", metavar="WORD", help="those with this word in their name")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--data", metavar="FOLDER", help="folder with public data sets")
    parser.add_argument("--out", type=Path, default=Path("elsewhere-benchmark"))
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    split_seeds = SEEDS[arguments.split]
    seeds = arguments.seeds or split_seeds[:1]
    if not set(seeds) <= set(split_seeds):
        parser.error(f"--seeds {seeds}: the seeds of {arguments.split} are {split_seeds}")
    if arguments.each:
        chosen_cases = [case for seed in seeds for case in one_of_each(arguments.split, seed)]
    else:
        chosen_cases = cases(arguments.split)
    if arguments.only:
        chosen_cases = [case for case in chosen_cases if arguments.only in case.name]
    chosen_cases = chosen_cases[: arguments.sample]
    frozen = digests(arguments.data)
    print("\n".join(f"{name}: {value}" for name, value in frozen.items()))
    digest = "-".join(value[:8] for value in frozen.values())
    folder, rate = arguments.out, arguments.rate
    record_all(folder, chosen_cases, rate, arguments.data, arguments.workers, digest)
    measures = results(read(folder, chosen_cases, rate, digest))
    print(format_results(measures))
    if arguments.save:
        circumstances = {"split": arguments.split, "rate": rate, "sample": arguments.sample}
        circumstances |= {
            "of each kind": arguments.each,
            "seeds": list(seeds) if arguments.each else None,
            "trainings of the split": len(cases(circumstances["split"])),
        }
        print(save(measures, circumstances | {"digests": frozen}))


def save(measures: dict[str, Any], split_facts: dict[str, Any]) -> Path:
    """Write a dated result, with the versions that it was measured with."""
    date = time.strftime("%Y-%m-%d")
    circumstances = {"machine": machine(), "versions": installed_versions(PACKAGES)}
    result = {"date": date} | circumstances | split_facts | measures
    file = _RESULTS / f"elsewhere-{split_facts['split']}-{split_facts['rate']}-{date}.json"
    file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return file


if __name__ == "__main__":
    main()
