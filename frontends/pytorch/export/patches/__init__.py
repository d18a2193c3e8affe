"""What torch.export is given in the place of PyTorch's own while it captures."""
