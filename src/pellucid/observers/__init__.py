"""Send a run to TensorBoard, Weights & Biases, trackio or MLflow, on request.

Must not know: the run, the model, each other.
"""

from pellucid.observers.mlflow import MLflow
from pellucid.observers.select import OBSERVERS, observer_for
from pellucid.observers.tensorboard import TensorBoard
from pellucid.observers.tracker import Insights, Tracker
from pellucid.observers.trackio import Trackio
from pellucid.observers.weights_and_biases import WeightsAndBiases

__all__ = [
    "OBSERVERS",
    "Insights",
    "MLflow",
    "TensorBoard",
    "Tracker",
    "Trackio",
    "WeightsAndBiases",
    "observer_for",
]
