"""`convert batch`: converts whole zoos, each model in its own process group, with a journal to resume from.

A plan (`plan.py`) is a list of tasks. A task's key (`task_key.py`) is a hash of its content, options and versions. The
journal (`journal.py`) records which keys are done. An engine (`local_engine.py`) passes tasks to workers (`worker.py`).
"""
