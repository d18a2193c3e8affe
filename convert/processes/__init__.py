"""Child processes for work that may crash, hang or exhaust memory, and their sandbox."""
