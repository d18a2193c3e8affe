"""Tokens that a decoder generates."""
