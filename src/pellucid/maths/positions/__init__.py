"""How a model knows where a token stands: added vectors, rotated pairs, terms by distance."""
