"""Seed files, mutations and judges of the fuzzer (`tests/suites/fuzz.py`)."""
