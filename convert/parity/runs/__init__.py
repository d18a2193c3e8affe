"""Runs of source, graph and target on the inputs."""
