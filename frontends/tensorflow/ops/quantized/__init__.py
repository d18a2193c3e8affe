"""Rules for numbers stored as integers with a range."""
