"""Compare the tokens that decoders generate."""
