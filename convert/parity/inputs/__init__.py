"""Choose the inputs that a pair is compared on, and their sizes."""
