"""What a file is, and whether it is safe to parse: sniffing, archives, pickles, protobuf, folders, outputs."""
