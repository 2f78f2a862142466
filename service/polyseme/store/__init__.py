"""Models on disk: the manifest, the vocabulary, the vectors and the attention weights."""
