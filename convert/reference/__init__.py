"""The project's own executor of the shared graph, in float64 too: it judges, and is no backend."""
