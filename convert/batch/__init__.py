"""`convert batch`: whole zoos, each conversion in a process group of its own, with a journal to go on from.

A plan (`plan.py`) is a list of tasks; a task's key (`task_key.py`) is a hash of its content, options and versions; the
journal (`journal.py`) says which keys are done; an engine (`local_engine.py`) hands tasks to workers (`worker.py`).
"""
