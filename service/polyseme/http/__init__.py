"""The HTTP API: one WSGI application."""
