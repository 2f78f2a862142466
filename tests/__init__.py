"""The tests of polyseme, by part."""
