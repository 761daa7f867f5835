"""What a watch reads from a training: hooks, calls, gradients. Each changes nothing."""
