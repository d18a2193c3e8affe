"""Arithmetic that several backends need, with the specification that it follows; imports no framework."""
