"""Operators written out in simpler ones: one lowering for each, for old opsets and for targets without a rule."""
