"""Polyseme: contextual word vectors from static ones, as a service."""

__version__ = "0.1.0"
