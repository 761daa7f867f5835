"""The history of a training: of pellucid's own run, or of any loop under watch."""
