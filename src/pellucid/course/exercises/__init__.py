"""Exercises: operands from a model, answers graded against the equations, and typical mistakes."""
