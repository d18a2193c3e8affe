"""The layout pass: places transposes by an exact minimum cut."""
