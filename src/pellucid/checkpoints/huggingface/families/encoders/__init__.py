"""The families of encoders."""
