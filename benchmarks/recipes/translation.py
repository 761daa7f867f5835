"""How well two models of one size translate: an encoder-decoder, and a decoder on one text.

    python -m benchmarks.recipes.translation encoder-decoder=RUN one-text=RUN

Each run is evaluated on all that it held out, once by greedy and once by beam search. Both are
evaluated on the sources that both held out. (The text in front of the target decides about the
split, and it differs.) BLEU and chrF are sacrebleu's, with its defaults, each source once with all
the targets the data have for it; also by the length of the source.

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
#: The text around the source if the two are one text.
BEFORE, AFTER = "Translate to French. English: ", " French:"


def main() -> None:
    """Measure the named runs, print, and add them to the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--limit", type=int, help="of the pairs for the beam search")
    parser.add_argument("--out", default=f"benchmarks/results/translation-{DATE}.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results_file = Path(arguments.out)
    results = (
        json.loads(results_file.read_text("utf-8")) if results_file.exists() else {"date": DATE}
    )
    results["machine"] = {
        "processor": platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    for named_run in arguments.runs:
        name, _, path = named_run.partition("=")
        results[name] = _measure_run(path, arguments.beams, arguments.limit)
        print(name, json.dumps(results[name], indent=1), flush=True)
    texts = results_file.with_suffix(".texts")  # not kept: what was written, for the comparison
    texts_by_run = json.loads(texts.read_text("utf-8")) if texts.exists() else {}
    texts_by_run |= {
        n: _TEXTS[p] for n, p in (named_run.split("=", 1) for named_run in arguments.runs)
    }
    texts.write_text(json.dumps(texts_by_run), encoding="utf-8")
    if len(texts_by_run) > 1:
        results["held out by all"] = _shared(texts_by_run)
        print(json.dumps(results["held out by all"], indent=1))
    results_file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


#: What each run wrote greedily: source, text, references.
_TEXTS: dict[str, list[tuple[str, str, list[str]]]] = {}


def _measure_run(path: str, n_beams: int, limit: int | None) -> dict[str, Any]:
    run = runs.load(path)
    results: dict[str, Any] = {"run": _facts(run), "held_out": _held_out(run)}
    for method, n, method_limit in (("greedy", 1, None), ("beams", n_beams, limit)):
        started = time.process_time()
        translations = _translate(run, n, method_limit)
        seconds = time.process_time() - started
        results[method] = _measured(translations) | {
            "n_beams": n,
            "processor_seconds": round(seconds, 1),
        }
        if method == "greedy":
            _TEXTS[path] = [(_source(w), w.text, list(w.references)) for w in translations]
    return results


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
    evaluation = runs.evaluate_rows(run, limit=5000)
    accuracy = evaluation.held_out.measures["accuracy"]
    return {
        "loss_nats": evaluation.held_out.loss_nats,
        "accuracy": accuracy,
        "pairs": evaluation.examples,
    }


def _translate(run: runs.Run, n_beams: int, limit: int | None) -> list[GeneratedText]:
    beams = Beams(n_beams=n_beams, max_new_tokens=60)
    return list(runs.evaluate_rows(run, limit=limit, beams=beams).generated)


def _shared(texts_by_run: dict[str, list[tuple[str, str, list[str]]]]) -> dict[str, Any]:
    """All on the sources that none has learnt from, greedily."""
    texts = {
        name: {
            prompt: GeneratedText(prompt=prompt, text=text, references=tuple(references))
            for prompt, text, references in entries
        }
        for name, entries in texts_by_run.items()
    }
    shared = sorted(set.intersection(*(set(texts_of_run) for texts_of_run in texts.values())))
    scores = {
        name: _scores([texts_of_run[source] for source in shared])
        for name, texts_of_run in texts.items()
    }
    return {"sources": len(shared), **scores}


def _source(translation: GeneratedText) -> str:
    return translation.prompt.removeprefix(BEFORE).removesuffix(AFTER)


def _measured(translations: Sequence[GeneratedText]) -> dict[str, Any]:
    by_length = {}
    for shortest, longest in LENGTHS:
        of_length = [
            translation
            for translation in translations
            if shortest <= len(_source(translation).split()) <= longest
        ]
        if of_length:
            by_length[f"{shortest} to {longest} words"] = {
                "sources": len(of_length),
                **_scores(of_length),
            }
    return {
        "sources": len(translations),
        "references": sum(len(translation.references) for translation in translations),
        **_scores(translations),
        "bleu_of_one_reference": round(_scored(BLEU(), _first(translations))[0], 2),
        "signature": _scored(BLEU(), translations)[1],
        "by_length": by_length,
    }


def _scores(translations: Sequence[GeneratedText]) -> dict[str, float]:
    exact = sum(translation.text in translation.references for translation in translations) / len(
        translations
    )
    return {
        "bleu": round(_scored(BLEU(), translations)[0], 2),
        "chrf": round(_scored(CHRF(), translations)[0], 2),
        "exact_match": round(exact, 4),
        "length_ratio": round(
            sum(len(translation.text.split()) for translation in translations)
            / sum(len(translation.references[0].split()) for translation in translations),
            3,
        ),
    }


def _first(translations: Sequence[GeneratedText]) -> list[GeneratedText]:
    return [
        replace(translation, references=translation.references[:1]) for translation in translations
    ]


def _scored(metric: Any, translations: Sequence[GeneratedText]) -> tuple[float, str]:
    references = [
        list(row_of_references)
        for row_of_references in zip_longest(*(w.references for w in translations))
    ]
    score: Callable[..., Any] = metric.corpus_score
    value = float(score([translation.text for translation in translations], references).score)
    return value, str(metric.get_signature())


if __name__ == "__main__":
    main()
