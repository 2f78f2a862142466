"""The commands `polyseme train` and `polyseme evaluate`."""
