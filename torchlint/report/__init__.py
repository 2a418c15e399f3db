"""Findings as text: one module a format, each with `render(files, view)`."""
