"""Captures a module as an ExportedProgram, and prepares the program for lowering."""
