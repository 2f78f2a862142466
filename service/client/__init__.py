"""The same calls on a model in this process and on a service somewhere else."""
