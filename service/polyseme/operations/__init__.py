"""What the service does with a model: one module for each operation, and what they share."""
