"""What stands at the top of `model.py`: how the code is used, by which a folder of it is known again as well."""

from __future__ import annotations

USAGE = '''"""The network, to be used and trained with PyTorch alone; its weights are in model.safetensors.

    from safetensors.torch import load_file
    from model import Model

    model = Model()
    model.load_state_dict(load_file("model.safetensors"))
    model.eval()
"""
'''
