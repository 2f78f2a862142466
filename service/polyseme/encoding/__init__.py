"""Encoding of texts, for the HTTP API, the command line and the Python client."""
