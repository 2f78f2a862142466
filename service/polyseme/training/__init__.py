"""Making attention weights: in closed form, from vectors alone."""
