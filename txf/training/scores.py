"""Scores of the labelled tasks: macro-F1, entities found, translations compared."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from ml_collections import ConfigDict

from txf.data.dataset import Dataset
from txf.data.tokenizers import Tokenizer

Batch = Mapping[str, Any]


def f1(correct: float, found: float, wanted: float) -> float:
    """Return 2 correct / (found + wanted), the harmonic mean of precision and recall."""
    return 2 * correct / (found + wanted) if found + wanted else 0.0


def macro_f1(confusion: Float[np.ndarray, "classes classes"]) -> float:
    """Return the plain mean over classes of their F1; rows of `confusion` are the true classes.

    A class that neither occurs nor is ever chosen is left out.
    """
    hits, found, wanted = np.diag(confusion), confusion.sum(axis=0), confusion.sum(axis=1)
    present = (found + wanted) > 0
    return float(
        np.mean(
            [f1(*row) for row in zip(hits[present], found[present], wanted[present], strict=True)]
        )
    )


def entities(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Return the entities (start, end, type) that a sequence of BIO tags marks.

    By the rule of CoNLL-2000's conlleval: an entity begins at B-X, and at an I-X that continues no
    X; it ends where its type does. Tjong Kim Sang & Buchholz 2000.
    """
    found = set()
    start, kind = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        continues = prefix == "I" and name == kind
        if kind and not continues:
            found.add((start, place, kind))
            kind = ""
        if prefix in ("B", "I") and not kind:
            start, kind = place, name
    return found


@runtime_checkable
class Judge(Protocol):
    """Sees a split batch by batch, and gives scores that sums of losses do not."""

    def see(self, params: Any, batch: Batch, choice: Int[np.ndarray, "..."], count: int) -> None:
        """Take note of the first `count` rows of a batch and of what the model chose for them."""

    def scores(self) -> dict[str, float]:
        """Return the scores of all that was seen."""


class ClassJudge:
    """macro_f1 of a classifier."""

    def __init__(self, num_classes: int):
        self._confusion = np.zeros((num_classes, num_classes))

    def see(self, params: Any, batch: Batch, choice: Int[np.ndarray, "..."], count: int) -> None:
        """Count which class was taken for which."""
        np.add.at(self._confusion, (np.asarray(batch["targets"])[:count], choice[:count]), 1)

    def scores(self) -> dict[str, float]:
        """Return macro_f1."""
        return {"macro_f1": macro_f1(self._confusion)}


class TagJudge:
    """Entity-level precision, recall and F1 of a tagger whose labels are BIO; else macro_f1."""

    def __init__(self, labels: Sequence[str]):
        self._labels = labels
        self._sums = np.zeros(3)  # correct, found, wanted
        self._classes = ClassJudge(len(labels))
        self._is_bio = any(label[:2] in ("B-", "I-") for label in labels)

    def see(self, params: Any, batch: Batch, choice: Int[np.ndarray, "..."], count: int) -> None:
        """Compare the entities of each sentence with those that are marked in it."""
        for row in range(count):
            real = np.asarray(batch["weights"][row]) > 0
            targets, chosen = np.asarray(batch["targets"][row])[real], choice[row][real]
            self._classes.see(params, {"targets": targets}, chosen, len(targets))
            wanted = entities([self._labels[tag] for tag in targets])
            found = entities([self._labels[tag] for tag in chosen])
            self._sums += (len(wanted & found), len(found), len(wanted))

    def scores(self) -> dict[str, float]:
        """Return entity_f1 with its precision and recall, and macro_f1 over tags."""
        if not self._is_bio:
            return self._classes.scores()
        correct, found, wanted = self._sums.tolist()
        return {
            "entity_f1": f1(correct, found, wanted),
            "entity_precision": correct / found if found else 0.0,
            "entity_recall": correct / wanted if wanted else 0.0,
            **self._classes.scores(),
        }


class TranslationJudge:
    """BLEU, chrF and exact match of what beam search makes of the sources.

    BLEU and chrF through sacrebleu, with its default settings. Post 2018.
    """

    def __init__(self, model: nn.Module, tokenizer: Tokenizer, beams: int, max_new_tokens: int):
        self._model, self._tokenizer = model, tokenizer
        self._search = {"beams": beams, "max_new_tokens": max_new_tokens}
        self._made: list[str] = []
        self._wanted: list[str] = []

    def see(self, params: Any, batch: Batch, choice: Int[np.ndarray, "..."], count: int) -> None:
        """Translate the batch's sources; what was chosen beside the true target does not count."""
        from txf.beam_search import beam_search

        source, segments = (jnp.asarray(batch[key]) for key in ("source", "source_segments"))
        made = beam_search(self._model, params, source, segments, **self._search)
        self._made += self._texts(np.asarray(made)[:count])
        self._wanted += self._texts(np.asarray(batch["targets"])[:count])

    def scores(self) -> dict[str, float]:
        """Return bleu and chrf, 0 to 100, and exact_match, a share."""
        import sacrebleu

        exact = np.mean(
            [made == wanted for made, wanted in zip(self._made, self._wanted, strict=True)]
        )
        return {
            "bleu": sacrebleu.corpus_bleu(self._made, [self._wanted]).score,
            "chrf": sacrebleu.corpus_chrf(self._made, [self._wanted]).score,
            "exact_match": float(exact),
        }

    def _texts(self, rows: Iterable[np.ndarray]) -> list[str]:
        ends = [int(np.argmax(row == 0)) if (row == 0).any() else len(row) for row in rows]
        return [self._tokenizer.decode(row[:end]) for row, end in zip(rows, ends, strict=True)]


def make_judge(config: ConfigDict, dataset: Dataset, model: nn.Module) -> Judge | None:
    """Return the judge of the config's task, or None where the loss says all there is to say."""
    match config.task:
        case "classification":
            return ClassJudge(dataset.num_classes)
        case "tagging":
            return TagJudge(dataset.labels)
        case "translation":
            wanted = config.evaluation
            return TranslationJudge(model, dataset.tokenizer, wanted.beams, wanted.max_new_tokens)
    return None
