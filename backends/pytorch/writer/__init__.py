"""Writes exported programs."""
