"""Import of pretrained word vectors into model folders; the only package that imports gensim."""
