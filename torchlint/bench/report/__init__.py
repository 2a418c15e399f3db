"""What bench says, one module a format."""
