"""Other people's loops around models of transformers, broken and healthy; see `__main__`."""
