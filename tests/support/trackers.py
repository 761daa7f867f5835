"""A run in a tracker, and what the tool's own reader finds of it."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Shown = dict[str, Any]


def main() -> None:
    """Train, resume from an earlier checkpoint, and write down what the tool shows."""
    warnings.simplefilter("ignore")  # those of the tool
    import pellucid
    from pellucid.diagnosis.insights import RunInsights
    from pellucid.observers import observer_for
    from pellucid.vitals import watcher
    from support.tiny import TINY, write_text

    folder, tool = Path(sys.argv[1]), sys.argv[2]
    run = folder / "run"
    insights = RunInsights()

    pellucid.train(
        [write_text(folder / "text")],
        out=run,
        steps=12,
        settings=[*TINY, "text.held_out=0.2"],
        observers=[observer_for(tool, insights=insights)],
        watchers=[watcher()],
        show=False,
    )
    pellucid.resume(
        run / "checkpoints" / "step-8",
        observers=[observer_for(tool, insights=insights)],
        watchers=[watcher()],
        show=False,
    )
    lines = insights.findings(run) or ["nothing was found"]
    facts = {**READERS[tool](run), "finding": lines[0].split()[0]}
    (folder / "shown.json").write_text(json.dumps(facts))


def read_tensorboard(run: Path) -> Shown:
    """Through the reader of TensorBoard itself."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()

    def texts(name: str) -> list[str]:
        name = f"{name}/text_summary"
        if name not in tags["tensors"]:
            return []
        return [event.tensor_proto.string_val[0].decode() for event in events.Tensors(name)]

    text_names = [name.removesuffix("/text_summary") for name in tags["tensors"]]
    labels = [text for name in text_names if name.startswith("tags/") for text in texts(name)]
    return {
        "numbers": {
            name: {scalar.step: scalar.value for scalar in events.Scalars(name)}
            for name in tags["scalars"]
        },
        "d_model": json.loads(texts("config")[0])["model.d_model"],
        "tags": " ".join(labels),
        "samples": texts("sample"),
        "findings": texts("findings"),
        "pictures": tags["images"],
        "runs": ["tensorboard"],
    }


def read_wandb(run: Path) -> Shown:
    """From the files that `wandb sync` would send, by wandb's own records."""
    from wandb.proto import wandb_internal_pb2

    numbers: dict[str, dict[int, float]] = {}
    config: Shown = {}
    labels: list[str] = []
    texts: dict[str, list[str]] = {}
    pictures: set[str] = set()
    files = sorted(run.glob("wandb/offline-run-*/*.wandb"))
    for file in files:
        for data in _records(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            row = {
                item.key or "/".join(item.nested_key): json.loads(item.value_json)
                for item in record.history.item
            }
            for name, value in row.items():
                if name.split("/")[0] == "attention":
                    pictures.add("/".join(name.split("/")[:2]))
                elif isinstance(value, str) and name in ("sample", "findings"):
                    texts.setdefault(name, []).append(value)
                elif not name.startswith("_") and name != "step":
                    numbers.setdefault(name, {})[row["step"]] = float(value)
            config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
            labels += record.run.tags
    return {
        "numbers": numbers,
        "d_model": config["model.d_model"],
        "tags": " ".join(labels),
        "samples": texts["sample"],
        "findings": texts["findings"],
        "pictures": sorted(pictures),
        "runs": sorted({file.name for file in files}),
    }


def _records(content: bytes) -> Iterator[bytes]:
    """The records of LevelDB's log: blocks of 32 kB, records cut at their ends."""
    place, record = 7, b""
    while place + 7 <= len(content):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        length = int.from_bytes(content[place + 4 : place + 6], "little")
        kind = content[place + 6]
        record += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield record
            record = b""


def read_trackio(run: Path) -> Shown:
    """From trackio's own database."""
    from trackio import SQLiteStorage

    names = [str(name) for name in SQLiteStorage.get_runs("pellucid")]
    rows = SQLiteStorage.get_logs("pellucid", names[0])
    (config,) = SQLiteStorage.get_all_run_configs("pellucid").values()
    numbers: dict[str, dict[int, float]] = {}
    texts: dict[str, list[str]] = {}
    pictures: set[str] = set()
    for row in rows:
        for name, value in row.items():
            if isinstance(value, dict) and value.get("_type") == "trackio.image":
                pictures.add(name)
            elif isinstance(value, dict):
                texts.setdefault(name, []).append(value["_value"])
            elif name not in ("step", "timestamp"):
                numbers.setdefault(name, {})[row["step"]] = value
    tags = [text for name in texts if name.startswith("tags/") for text in texts[name]]
    return {
        "numbers": numbers,
        "d_model": config["model.d_model"],
        "tags": " ".join([*tags, *config["tags"].values()]),
        "samples": texts["sample"],
        "findings": texts["findings"],
        "pictures": sorted(pictures),
        "runs": names,
    }


def read_mlflow(run: Path) -> Shown:
    """Through MLflow's client."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{run.parent / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("pellucid")
    mlflow_runs = client.search_runs([experiment.experiment_id])
    data, run_id = mlflow_runs[0].data, mlflow_runs[0].info.run_id

    def texts(name: str) -> list[str]:
        files = [file.path for file in client.list_artifacts(run_id, name)]
        return [Path(client.download_artifacts(run_id, file)).read_text() for file in files]

    folders = client.list_artifacts(run_id, "attention")
    return {
        "numbers": {
            name: {metric.step: metric.value for metric in client.get_metric_history(run_id, name)}
            for name in data.metrics
        },
        "d_model": int(data.params["model.d_model"]),
        "tags": " ".join(data.tags.values()),
        "samples": texts("sample"),
        "findings": texts("findings"),
        "pictures": [folder.path for folder in folders],
        "runs": [mlflow_run.info.run_id for mlflow_run in mlflow_runs],
    }


READERS: dict[str, Callable[[Path], Shown]] = {
    "tensorboard": read_tensorboard,
    "wandb": read_wandb,
    "trackio": read_trackio,
    "mlflow": read_mlflow,
}
