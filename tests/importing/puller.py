"""`polyseme models pull` in this process, with folders of its own."""

import tempfile

from gensim import downloader

from tests.importing.conftest import run


class Puller:
    """Runs the command; models, gensim's data and scratch files go below one place."""

    def __init__(self, place, patch):
        self.models, self.data, self.scratch = (place / n for n in ("models", "data", "scratch"))
        self.scratch.mkdir()
        patch.setattr(downloader, "BASE_DIR", str(self.data))
        patch.setattr(tempfile, "tempdir", None)
        patch.setenv("TMPDIR", str(self.scratch))
        patch.setenv("no_proxy", "*")

    def pull(self, *arguments, mirror=None):
        place = [] if mirror is None else ["--mirror", mirror.address]
        return run("models", "pull", *arguments, *place, "--models-dir", self.models)

    def refusal(self, *arguments, mirror=None):
        """The one sentence of a failure, which leaves only the index that gensim caches."""
        done = self.pull(*arguments, mirror=mirror)
        assert (done.code, done.out) == (1, ""), done.err
        (line,) = done.err.splitlines()
        assert not self.models.exists() or not any(self.models.iterdir())
        assert not any(self.scratch.iterdir())
        left = {path.name for path in self.data.rglob("*")}
        assert left == {"information.json"} or not self.data.exists()
        return line.removeprefix("polyseme: ")
