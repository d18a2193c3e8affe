"""The outcome of a conversion: a report, a verdict, notes and errors with their codes, and how they are displayed."""
