"""Events of a run in; the same numbers in other people's tools, out. Only where asked for."""

from pellucid.observers.select import OBSERVERS, observer_for
from pellucid.observers.tensorboard import TensorBoard
from pellucid.observers.weights_and_biases import WeightsAndBiases

__all__ = ["OBSERVERS", "TensorBoard", "WeightsAndBiases", "observer_for"]
