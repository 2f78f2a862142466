"""gunicorn: its settings, its hooks and the worker."""
