"""More text than one request holds: files in, shards out."""
