"""Find the first operator whose value differs."""
