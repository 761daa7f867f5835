"""Matrices in few bits in the place of parameters: the layers, and how they are filled."""
