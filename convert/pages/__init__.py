"""The pages of `--report`: one template for a verification, a batch and a model; they need no network."""
