"""How a verification is told: a table for people, JSON, Markdown, and one HTML file."""
