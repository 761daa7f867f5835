"""How a run did on examples, for a person or as JSON.

Comes in: a run and flags. Goes out: lines, tables, or JSON. It does not know which objective it is.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pellucid.cli.output import print_json
from pellucid.cli.texts import line
from pellucid.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pellucid.generation import Beams
    from pellucid.runs import RowsEvaluation, Run
    from pellucid.runs.measures import Classified
    from pellucid.training import HeldOut

#: So many of the texts that were written are shown; all of them are in the JSON.
_SHOWN = 3
#: Titles stand in so many columns.
_TITLE = 28


def say_rows(run: Run, arguments: argparse.Namespace) -> None:
    """How a run did on rows."""
    from pellucid import runs

    if arguments.field is not None:
        raise ConfigError(
            f"--field {arguments.field}: rows have several fields; say --columns "
            f"NAME={arguments.field}"
        )
    found = runs.evaluate_rows(
        run,
        arguments.paths,
        columns=[name for given in arguments.columns for name in given.split(",")],
        reward=arguments.reward,
        limit=arguments.limit,
        beams=_beams(arguments),
    )
    if arguments.json:
        print_json(_facts(found))
        return
    for each in found.said:
        print(each)
    _say(found.held_out, found.compared or {})
    if found.classified is not None:
        _say_classes(found.classified)
    if found.written:
        _say_written(found)


def say_held_out(run: Run, arguments: argparse.Namespace) -> None:
    """How a run of any objective did on what it kept out of training."""
    from pellucid import runs

    found = runs.evaluate_held_out(run, reward=arguments.reward)
    if arguments.json:
        print_json(_of(found))
        return
    print("the run's own held-out text")
    _say(found, {})


def _beams(arguments: argparse.Namespace) -> Beams | None:
    from pellucid.generation import Beams

    if arguments.write:
        return Beams(n_beams=arguments.beams or 1)
    if arguments.beams is not None:
        raise ConfigError(
            f"--beams {arguments.beams} is how texts are written: give --write too, or leave it out"
        )
    return None


def _say(found: HeldOut, compared: Mapping[str, float]) -> None:
    from pellucid.display.names import in_order, nats_per

    print()
    print(f"{'loss':<{_TITLE}} {found.loss_nats:8.4f} {nats_per(found.unit)}")
    for measured, value in in_order([*found.measures.items(), *compared.items()]):
        print(f"{measured.title:<{_TITLE}} {measured.number(value):>8} {measured.unit}".rstrip())
    print(f"{'over':<{_TITLE}} {found.over:8,} {found.unit}")


def _say_classes(found: Classified) -> None:
    from pellucid.display.tables import class_table, confusion_table

    print()
    rows = [(c.name, c.precision, c.recall, c.f1, c.texts) for c in found.classes]
    print("\n".join(class_table(rows)))
    if found.confusion is not None:
        print()
        print("\n".join(confusion_table([c.name for c in found.classes], found.confusion.tolist())))


def _say_written(found: RowsEvaluation) -> None:
    n_references = sum(len(each.references) for each in found.written)
    print(f"{'written':<{_TITLE}} {len(found.written):8,} texts; {n_references:,} to compare with")
    for each in found.written[:: max(1, len(found.written) // _SHOWN)][:_SHOWN]:
        print()
        print(f"  {'given':<8} {line(each.given)}")
        print(f"  {'written':<8} {line(each.text)}")
        for reference in each.references[:_SHOWN]:
            print(f"  {'right':<8} {line(reference)}")


def _of(found: HeldOut) -> dict[str, Any]:
    return {
        "loss_nats": found.loss_nats,
        **found.measures,
        "over": found.over,
        "unit": found.unit,
    }


def _facts(found: RowsEvaluation) -> dict[str, Any]:
    facts = {"examples": found.examples, **_of(found.held_out), "data": list(found.said)}
    if found.classified is not None:
        matrix = found.classified.confusion
        facts["classes"] = [
            {
                "name": each.name,
                "precision": each.precision,
                "recall": each.recall,
                "f1": each.f1,
                "texts": each.texts,
            }
            for each in found.classified.classes
        ]
        facts["confusion"] = None if matrix is None else matrix.tolist()
    if found.compared is not None:
        facts |= found.compared
        facts["written"] = [
            {"given": each.given, "text": each.text, "references": list(each.references)}
            for each in found.written
        ]
    return facts
