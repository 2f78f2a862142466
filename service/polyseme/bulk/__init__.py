"""Encoding of files of texts into shards of vectors (`polyseme bulk`)."""
