"""Lowerings: each writes one operator out in simpler ones, for old opsets and for targets without a rule."""
