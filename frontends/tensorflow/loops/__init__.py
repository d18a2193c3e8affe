"""While loops: recognizes recurrent layers, and converts the others to Loop."""
