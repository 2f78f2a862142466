"""Request context, logs, metrics and traces."""
