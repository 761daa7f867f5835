"""How well two models of one size translate: an encoder-decoder, and a decoder on one text.

    python -m benchmarks.recipes.translation encoder-decoder=RUN one-text=RUN

Each run is evaluated on all that it held out, once by greedy and once by beam search, and both
on the sources that both held out (they are parted by what stands in front of the target, which
differs). BLEU and chrF are sacrebleu's, with its defaults, each source once with all the targets
the data have for it; also by the length of the source.

Comes in: two runs of docs/recipes/translation.md. Goes out: a table, and a dated JSON file under
benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from sacrebleu.metrics import BLEU, CHRF

from pellucid import runs
from pellucid.generation import Beams
from pellucid.tasks import GeneratedText

DATE = "2026-11-21"
#: Words in the source: from, and to.
LENGTHS = ((1, 4), (5, 6), (7, 8), (9, 12), (13, 99))
#: What stands around the source where the two are one text.
BEFORE, BEHIND = "Translate to French. English: ", " French:"


def main() -> None:
    """Measure the runs that are named, print, and write beside what is known already."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--limit", type=int, help="of the pairs for the beam search")
    parser.add_argument("--out", default=f"benchmarks/results/translation-{DATE}.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    out = Path(given.out)
    found = json.loads(out.read_text("utf-8")) if out.exists() else {"date": DATE}
    found["machine"] = {
        "processor": platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    for each in given.runs:
        name, _, path = each.partition("=")
        found[name] = _one(path, given.beams, given.limit)
        print(name, json.dumps(found[name], indent=1), flush=True)
    texts = out.with_suffix(".texts")  # not kept: what was written, for the comparison
    known = json.loads(texts.read_text("utf-8")) if texts.exists() else {}
    known |= {n: _TEXTS[p] for n, p in (each.split("=", 1) for each in given.runs)}
    texts.write_text(json.dumps(known), encoding="utf-8")
    if len(known) > 1:
        found["held out by all"] = _shared(known)
        print(json.dumps(found["held out by all"], indent=1))
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


#: What each run wrote greedily: source, text, references.
_TEXTS: dict[str, list[tuple[str, str, list[str]]]] = {}


def _one(path: str, n_beams: int, limit: int | None) -> dict[str, Any]:
    run = runs.load(path)
    found: dict[str, Any] = {"run": _facts(run), "held_out": _held_out(run)}
    for way, n, most in (("greedy", 1, None), ("beams", n_beams, limit)):
        started = time.process_time()
        written = _written(run, n, most)
        seconds = time.process_time() - started
        found[way] = _measured(written) | {"n_beams": n, "processor_seconds": round(seconds, 1)}
        if way == "greedy":
            _TEXTS[path] = [(_source(w), w.text, list(w.references)) for w in written]
    return found


def _facts(run: runs.Run) -> dict[str, Any]:
    events = [json.loads(line) for line in (run.folder / "metrics.jsonl").open(encoding="utf-8")]
    ended = [event for event in events if event["event"] == "Finished"]
    return {
        "parameters": sum(weight.numel() for weight in run.model.parameters()),
        "checkpoint": run.checkpoint.name,
        "finished": bool(ended),
        "seconds": ended[-1]["seconds"] if ended else None,
        "batch_size": run.config.training.batch_size,
    }


def _held_out(run: runs.Run) -> dict[str, Any]:
    found = runs.evaluate_rows(run, limit=5000)
    accuracy = found.held_out.measures["accuracy"]
    return {"loss_nats": found.held_out.loss_nats, "accuracy": accuracy, "pairs": found.examples}


def _written(run: runs.Run, n_beams: int, limit: int | None) -> list[GeneratedText]:
    how = Beams(n_beams=n_beams, max_new_tokens=60)
    return list(runs.evaluate_rows(run, limit=limit, beams=how).generated)


def _shared(known: dict[str, list[tuple[str, str, list[str]]]]) -> dict[str, Any]:
    """All on the sources that none has learnt from, greedily."""
    texts = {
        name: {
            prompt: GeneratedText(prompt=prompt, text=text, references=tuple(references))
            for prompt, text, references in entries
        }
        for name, entries in known.items()
    }
    shared = sorted(set.intersection(*(set(each) for each in texts.values())))
    scores = {name: _scores([each[given] for given in shared]) for name, each in texts.items()}
    return {"sources": len(shared), **scores}


def _source(written: GeneratedText) -> str:
    return written.prompt.removeprefix(BEFORE).removesuffix(BEHIND)


def _measured(written: Sequence[GeneratedText]) -> dict[str, Any]:
    by_length = {}
    for least, most in LENGTHS:
        some = [each for each in written if least <= len(_source(each).split()) <= most]
        if some:
            by_length[f"{least} to {most} words"] = {"sources": len(some), **_scores(some)}
    return {
        "sources": len(written),
        "references": sum(len(each.references) for each in written),
        **_scores(written),
        "bleu_of_one_reference": round(_scored(BLEU(), _first(written))[0], 2),
        "signature": _scored(BLEU(), written)[1],
        "by_length": by_length,
    }


def _scores(written: Sequence[GeneratedText]) -> dict[str, float]:
    same = sum(each.text in each.references for each in written) / len(written)
    return {
        "bleu": round(_scored(BLEU(), written)[0], 2),
        "chrf": round(_scored(CHRF(), written)[0], 2),
        "exact_match": round(same, 4),
        "length_ratio": round(
            sum(len(each.text.split()) for each in written)
            / sum(len(each.references[0].split()) for each in written),
            3,
        ),
    }


def _first(written: Sequence[GeneratedText]) -> list[GeneratedText]:
    return [replace(each, references=each.references[:1]) for each in written]


def _scored(metric: Any, written: Sequence[GeneratedText]) -> tuple[float, str]:
    references = [list(each) for each in zip_longest(*(w.references for w in written))]
    score: Callable[..., Any] = metric.corpus_score
    found = float(score([each.text for each in written], references).score)
    return found, str(metric.get_signature())


if __name__ == "__main__":
    main()
