"""A sentence over a training: recorded, kept on disk and read back."""
