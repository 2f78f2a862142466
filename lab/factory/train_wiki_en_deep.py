"""Train layers over the vectors of `wiki-en` by hidden words: the teacher of `wiki-en-deep`.

    python lab/factory/train_wiki_en_deep.py --corpus FOLDER --pseudowords FILE

The training is `polyseme train --objective hidden-words` on every `*.txt.zst` of the corpus folder,
from the checkpoint in the work folder if there is one, with the words of CoarseWSD-20 and
of the pseudo-words (--pseudowords) left out. The learning rate is constant, so that a training can
be ended and continued at any time; the model is the moving average of the weights. The teacher of
`models/wiki-en-deep` had 91,000 steps, in ten hours of one core. It was ended by

    python lab/factory/train_wiki_en_deep.py … --steps 94500 --decay 0.0423

in which the rate falls to 0 in the last 4,000 steps. `narrow_wiki_en_deep.py` makes
`models/wiki-en-deep` of the result.
"""

from pathlib import Path

import click

from polyseme_lab.commands.train import corpus_options, run_train
from polyseme_lab.evaluation.downstream import read_pseudowords
from polyseme_lab.training.config import COARSEWSD
from polyseme_lab.training.run import CHECKPOINT

NAME = "deep"
STEPS = 91_000
"""Number of steps at a constant rate: 139 million tokens."""
SCORE_EVERY = 500
"""Number of steps between two checkpoints, a few minutes."""


def left_out(pseudowords: Path) -> list[str]:
    """Return the words of the evaluation, which are never hidden."""
    words = {word.casefold() for pair in read_pseudowords(pseudowords) for word in pair.words}
    return sorted(words | set(COARSEWSD))


@click.command()
@click.option("--corpus", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--pseudowords", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/wiki-en-deep"))
@click.option("--steps", default=STEPS, show_default=True, help="Total number of steps.")
@click.option("--decay", default=0.0, help="Share of the steps in which the rate falls to 0.")
def main(
    corpus: Path,
    pseudowords: Path,
    work: Path,
    steps: int,
    decay: float,
) -> None:
    """Train the teacher."""
    checkpoints = work / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    words = work / "leave_out.txt"
    words.write_text("\n".join(left_out(pseudowords)) + "\n")
    options: list[object] = ["--objective", "hidden-words", "--model", "wiki-en"]
    options += ["--leave-out", words, "--checkpoints", checkpoints, "--steps", steps]
    options += ["--decay", decay, "--score-every", SCORE_EVERY, "--output", NAME, "--replace"]
    options += ["--models-dir", work / "models"]
    if (checkpoints / CHECKPOINT).exists():
        options.append("--resume")
    run_train(*options, *corpus_options(corpus))


if __name__ == "__main__":
    main()
