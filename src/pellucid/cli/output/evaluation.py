"""Print how a run scores on examples."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pellucid.cli.output.printing import print_json, shorten
from pellucid.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pellucid.evaluation.metrics import Classified
    from pellucid.generation import Beams
    from pellucid.runs import RowsEvaluation, Run
    from pellucid.training import HeldOut

#: How many generated texts people see; the JSON has all.
_MAX_SHOWN = 3
#: Columns of a title.
_TITLE = 28


def print_example_scores(run: Run, arguments: argparse.Namespace) -> None:
    """Print how a run scores on rows."""
    from pellucid import runs

    if arguments.field is not None:
        raise ConfigError(
            f"--field {arguments.field}: rows have several fields; pass --columns "
            f"NAME={arguments.field}"
        )
    evaluation = runs.evaluate_rows(
        run,
        arguments.paths,
        columns=[name for column_list in arguments.columns for name in column_list.split(",")],
        reward=arguments.reward,
        limit=arguments.limit,
        beams=_beams(arguments),
    )
    if arguments.json:
        print_json(_facts(evaluation))
        return
    for note in evaluation.notes:
        print(note)
    _print_metrics(evaluation.held_out, evaluation.compared or {})
    if evaluation.classified is not None:
        _print_classes(evaluation.classified)
    if evaluation.generated:
        _print_generated(evaluation)


def print_held_out_score(run: Run, arguments: argparse.Namespace) -> None:
    """Print how a run of any objective scores on its held-out data."""
    from pellucid import runs

    held_out = runs.evaluate_held_out(run, reward=arguments.reward)
    if arguments.json:
        print_json(_metric_facts(held_out))
        return
    print("the run's own held-out text")
    _print_metrics(held_out, {})


def _beams(arguments: argparse.Namespace) -> Beams | None:
    from pellucid.generation import Beams

    if arguments.write:
        return Beams(n_beams=arguments.beams or 1)
    if arguments.beams is not None:
        raise ConfigError(
            f"--beams {arguments.beams} is for generated texts: give --write too, or leave it out"
        )
    return None


def _print_metrics(held_out: HeldOut, compared: Mapping[str, float]) -> None:
    from pellucid.display.metric_labels import in_order, nats_per

    print()
    print(f"{'loss':<{_TITLE}} {held_out.loss_nats:8.4f} {nats_per(held_out.unit)}")
    for measured, value in in_order([*held_out.measures.items(), *compared.items()]):
        print(f"{measured.title:<{_TITLE}} {measured.number(value):>8} {measured.unit}".rstrip())
    print(f"{'over':<{_TITLE}} {held_out.over:8,} {held_out.unit}")


def _print_classes(classified: Classified) -> None:
    from pellucid.display.tables import class_table, confusion_table

    print()
    rows = [(c.name, c.precision, c.recall, c.f1, c.texts) for c in classified.classes]
    print("\n".join(class_table(rows)))
    if classified.confusion is not None:
        print()
        print(
            "\n".join(
                confusion_table([c.name for c in classified.classes], classified.confusion.tolist())
            )
        )


def _print_generated(evaluation: RowsEvaluation) -> None:
    n_references = sum(len(output.references) for output in evaluation.generated)
    n_texts = len(evaluation.generated)
    print(f"{'written':<{_TITLE}} {n_texts:8,} texts; {n_references:,} to compare with")
    for output in evaluation.generated[:: max(1, n_texts // _MAX_SHOWN)][:_MAX_SHOWN]:
        print()
        print(f"  {'given':<8} {shorten(output.prompt)}")
        print(f"  {'written':<8} {shorten(output.text)}")
        for reference in output.references[:_MAX_SHOWN]:
            print(f"  {'right':<8} {shorten(reference)}")


def _metric_facts(held_out: HeldOut) -> dict[str, Any]:
    return {
        "loss_nats": held_out.loss_nats,
        **held_out.measures,
        "over": held_out.over,
        "unit": held_out.unit,
    }


def _facts(evaluation: RowsEvaluation) -> dict[str, Any]:
    facts = {
        "examples": evaluation.examples,
        **_metric_facts(evaluation.held_out),
        "data": list(evaluation.notes),
    }
    if evaluation.classified is not None:
        matrix = evaluation.classified.confusion
        facts["classes"] = [
            {
                "name": class_measures.name,
                "precision": class_measures.precision,
                "recall": class_measures.recall,
                "f1": class_measures.f1,
                "texts": class_measures.texts,
            }
            for class_measures in evaluation.classified.classes
        ]
        facts["confusion"] = None if matrix is None else matrix.tolist()
    if evaluation.compared is not None:
        facts |= evaluation.compared
        facts["written"] = [
            {"given": output.prompt, "text": output.text, "references": list(output.references)}
            for output in evaluation.generated
        ]
    return facts
