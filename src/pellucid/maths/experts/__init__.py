"""Mixtures of experts: the weights of a token's experts, and what keeps all of them in use."""
