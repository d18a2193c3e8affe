"""Rules for diagonals of matrices."""
