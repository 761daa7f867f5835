"""How often is the diagnosis right, and how often does it cry wolf? See `__main__`."""
