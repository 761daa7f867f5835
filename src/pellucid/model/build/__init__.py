"""From a config to the parts of a model."""
