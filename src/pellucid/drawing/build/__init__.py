"""From a config to the elements of its drawing."""
