"""Rules for strings."""
