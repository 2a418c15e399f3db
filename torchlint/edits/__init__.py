"""Rewrites of nodes to edits of text; uses the tree and its text alone."""
