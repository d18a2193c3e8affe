"""Identifies files and checks that they are safe to parse; writes outputs atomically."""
