"""How a model learns the order of tokens: added vectors, rotated pairs, terms by distance."""
