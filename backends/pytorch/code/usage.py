"""The first lines of `model.py`, which show how to use the code. They also identify a folder of code."""

from __future__ import annotations

USAGE = '''"""The network, to be used and trained with PyTorch alone; its weights are in model.safetensors.

    from safetensors.torch import load_file
    from model import Model

    model = Model()
    model.load_state_dict(load_file("model.safetensors"))
    model.eval()
"""
'''
