"""How long until another trainer's final loss, and how much lower at its time? See `__main__`."""
