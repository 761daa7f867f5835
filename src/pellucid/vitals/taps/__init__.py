"""How a watch reads a training: hooks, calls, gradients. None of them changes anything."""
