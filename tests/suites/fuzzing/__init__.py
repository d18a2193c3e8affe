"""Seeds, changes and judges of the fuzz (`tests/suites/fuzz.py`)."""
