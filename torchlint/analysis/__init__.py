"""Facts about one file of Python: the layer between libcst and the rules."""
