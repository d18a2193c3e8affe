"""Compare outputs, and decide what a comparison proves."""
