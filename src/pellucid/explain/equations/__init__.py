"""The equation of every address of the forward pass: a formula whose operands are addresses."""
