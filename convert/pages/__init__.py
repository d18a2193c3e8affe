"""The pages of `--report`: one template for a verification, a batch and a model; each is read without a network."""
