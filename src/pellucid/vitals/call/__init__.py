"""What the loop's own call of the model does, measured by repeating it with other inputs."""
