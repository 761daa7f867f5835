"""The curves of a panel: which one is shown, over which axis, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from pellucid.display.curve import History
from pellucid.display.metric_labels import nats_per
from pellucid.display.plot import Point, plot
from pellucid.training import events

#: What a curve can be drawn over.
AXES = ("updates", "terms", "minutes")
VIEWS = ("loss", "gradient norm", "learning rate", "speed")


class Track:
    """A growing series of values with their places on each axis, of bounded length."""

    def __init__(self) -> None:
        self._places = {axis: History() for axis in AXES}
        self._values = History()

    def add(self, places: Mapping[str, Sequence[float]], values: Sequence[float]) -> None:
        """Add the next values."""
        for axis, history in self._places.items():
            history.add(places[axis])
        self._values.add(values)

    def points(self, axis: str) -> list[Point]:
        """The points over an axis."""
        return list(zip(self._places[axis].averages, self._values.averages, strict=True))


class Curves:
    """All series of a run, and the choice of the one that is shown."""

    def __init__(self) -> None:
        self._tracks = {name: Track() for name in (*VIEWS, "held-out")}
        self._position = dict.fromkeys(AXES, 0.0)
        self._unit = "tokens"
        self._view = self._axis = 0
        self._is_log = False

    def absorb(self, event: events.Event) -> None:
        """Add the numbers of an event."""
        if isinstance(event, events.Logged):
            self._absorb_report(event)
        elif isinstance(event, events.Evaluated):
            places = {axis: [place] for axis, place in self._position.items()}
            places["updates"] = [event.step]
            self._tracks["held-out"].add(places, [event.loss_nats])

    def _absorb_report(self, event: events.Logged) -> None:
        n = len(event.losses)
        self._unit = event.unit
        terms = event.tokens - self._position["terms"]
        minutes = terms / event.tokens_per_second / 60 if event.tokens_per_second else 0.0
        parts = [(i + 1) / n for i in range(n)]
        places = {
            "updates": [event.step - n + i + 1 for i in range(n)],
            "terms": [self._position["terms"] + terms * part for part in parts],
            "minutes": [self._position["minutes"] + minutes * part for part in parts],
        }
        self._position = {axis: values[-1] for axis, values in places.items()}
        last = {axis: values[-1:] for axis, values in places.items()}
        self._tracks["loss"].add(places, event.losses)
        self._tracks["gradient norm"].add(places, event.grad_norms)
        self._tracks["learning rate"].add(last, [event.learning_rate])
        self._tracks["speed"].add(last, [event.tokens_per_second])

    def show_next(self) -> None:
        """Show another curve."""
        self._view = (self._view + 1) % len(VIEWS)

    def change_axis(self) -> None:
        """Draw over another axis."""
        self._axis = (self._axis + 1) % len(AXES)

    def change_scale(self) -> None:
        """Draw on the other scale, linear or logarithmic."""
        self._is_log = not self._is_log

    def lines(self, columns: int, rows: int) -> list[Text]:
        """The chosen curve with its axes, in so many columns and rows."""
        name, axis = VIEWS[self._view], AXES[self._axis]
        marks = self._tracks["held-out"].points(axis) if name == "loss" else []
        return plot(
            self._tracks[name].points(axis),
            marks,
            (columns, rows),
            title=self._title(name) + (", log" if self._is_log else ""),
            unit=self._unit if axis == "terms" else axis,
            is_log=self._is_log,
        )

    def _title(self, name: str) -> str:
        match name:
            case "loss":
                return f"loss, {nats_per(self._unit)} (● held-out)"
            case "speed":
                return f"{self._unit}/s"
            case _:
                return name
