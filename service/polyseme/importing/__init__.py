"""Import of pretrained word vectors as model folders; the only package that imports gensim."""
