"""The layout pass: where transposes go, by an exact minimum cut."""
