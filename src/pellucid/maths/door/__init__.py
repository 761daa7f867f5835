"""The public door of the equations: it checks and converts arguments before a formula runs."""
