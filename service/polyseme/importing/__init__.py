"""From files of pretrained vectors to model folders; the only package that imports gensim."""
