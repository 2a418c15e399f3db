"""Text to tree: parsing, the index of one walk, positions, lexer, depth.  Torch is unknown."""
