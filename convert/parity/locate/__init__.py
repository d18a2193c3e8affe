"""The first operator whose value differs."""
