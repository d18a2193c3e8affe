"""Example inputs: out of the file, of what the user says, or guessed from the first layers."""
