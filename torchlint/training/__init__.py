"""What the code means as a training script: rates, steps, loaders, models, reads by the host."""
