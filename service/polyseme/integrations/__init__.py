"""Polyseme inside of the tools that people already use."""
