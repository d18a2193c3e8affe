"""Example inputs: from the file, from the user's description, or guessed from the first layers."""
