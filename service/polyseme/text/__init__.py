"""From a caller's string to tokens that know their vocabulary entry (no I/O, no arrays)."""
