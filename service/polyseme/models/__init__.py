"""Models on disk and in memory: manifest, vocabulary, vectors, attention weights and registry."""
