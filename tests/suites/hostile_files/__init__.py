"""Makers of hostile files, one module for each class of them (`tests/suites/hostile.py`)."""
