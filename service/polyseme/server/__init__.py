"""The gunicorn configuration, hooks and worker class."""
