"""Arithmetic that several backends share, with the specification that it follows; imports no framework."""
