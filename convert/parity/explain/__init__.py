"""What rounding explains of a difference."""
