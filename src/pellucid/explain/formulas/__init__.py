"""Formulas over whole tensors: one tree gives one number with its operands, and all at once."""
