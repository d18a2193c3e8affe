"""The inputs that a pair is compared on, and the sizes that they have."""
