"""While loops: which are recurrent layers, and how the others become Loop."""
