"""The parity method: is a target the same function as its source, up to the rounding that the source itself shows?"""
