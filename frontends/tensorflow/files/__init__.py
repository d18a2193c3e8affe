"""TensorFlow's files: SavedModels, checkpoints, frozen graphs, and models in memory."""
