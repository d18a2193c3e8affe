"""Run source, graph and target on the inputs."""
