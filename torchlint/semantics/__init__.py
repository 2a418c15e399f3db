"""What the code means as Python, and which of torch's objects its expressions are."""
