"""Send the numbers of a run to TensorBoard or Weights & Biases, on request."""

from pellucid.observers.select import OBSERVERS, observer_for
from pellucid.observers.tensorboard import TensorBoard
from pellucid.observers.weights_and_biases import WeightsAndBiases

__all__ = ["OBSERVERS", "TensorBoard", "WeightsAndBiases", "observer_for"]
