"""What the user asked for: a source, a destination, inputs, and the options of a conversion."""
