"""Show what a config's data is: its size, its vocabulary, batches as a model reads them, and leaks.

python -m experiments.inspect_data --config=configs/storyworld.py [--config.data.seed=1 ...]
    [--rows=N]

Data is loaded, or made, as for training; nothing is trained or written, but for caches.
"""

import sys
import textwrap

from absl import flags

from experiments import common
from txf.errors import UserError

_CONFIG = flags.DEFINE_string("config", None, "Config file; --config.KEY=VALUE changes a key.")
_ROWS = flags.DEFINE_integer("rows", 2, "Rows to show of each of three batches.")
flags.mark_flag_as_required("config")

COLUMNS = 100
BATCHES = 3
LABELS = 40
ENDS = 16  # tokens shown of either end of the vocabulary
DOCUMENTS = {
    "language_model": "documents",
    "masked_language_model": "documents",
    "classification": "texts",
    "tagging": "sentences",
    "translation": "pairs",
}


def main(overrides: list[str]) -> None:
    """Print the report."""
    if _ROWS.value < 1:
        raise UserError(f"--rows={_ROWS.value} is out of range; it takes 1 or more")

    from txf.config import validate
    from txf.data.dataset import load_dataset
    from txf.data.overlap import read_content

    config = common.load_config(_CONFIG.value, overrides)
    validate(config)
    # A terminal may lack signs; they are escaped then.
    sys.stdout.reconfigure(errors="backslashreplace")
    dataset = load_dataset(config)
    numbers: dict[str, int] = {}
    contents = {
        name: read_content(split, dataset.tokenizer, numbers)
        for name, split in dataset.splits.items()
    }
    show_source(config, dataset)
    show_sizes(config, dataset, contents)
    if dataset.labels is not None:
        show_labels(dataset)
    show_vocabulary(dataset)
    show_batches(config, dataset)
    show_overlap(contents)


def show_source(config, dataset) -> None:
    """Print where the data comes from, and what was noted when it was read."""
    from txf.data.display import visible

    print(f"{config.task} from data.source={config.data.source}, data.seed={config.data.seed}")
    for note in dataset.notes:
        print(textwrap.fill(visible(note), COLUMNS, initial_indent="  ", subsequent_indent="    "))


def show_sizes(config, dataset, contents) -> None:
    """Print documents, tokens, bytes a token and rows of each split, and how long an epoch is."""
    from txf.data.display import table

    rows = [
        ("split", DOCUMENTS[config.task], "predictions", "bytes/token", "rows", "batches", "floor")
    ]
    for name, split in dataset.splits.items():
        content = contents[name]
        size, tokens = split.text_bytes, split.tokens
        if dataset.labels is not None or not size:
            size, tokens = content.text_bytes, content.tokens
        batch = config.training.batch_size if name == "train" else config.training.eval_batch_size
        batches = split.num_rows / batch
        floor = "" if split.floor_nats is None else f"{split.floor_nats / split.tokens:.3f}"
        rows.append(
            (
                name,
                f"{split.documents:,}",
                f"{split.tokens:,}",
                f"{size / max(tokens, 1):.2f}",
                f"{split.num_rows:,}",
                f"{batches:,.1f}",
                floor,
            )
        )
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    print("", *table(rows), sep="\n")
    train, data = dataset.splits["train"], config.data
    stride = f", a new one every {data.stride} tokens" if data.stride else ""
    steps = train.num_rows / config.training.batch_size
    print(f"\nA row is {data.context_length} tokens{stride}, data.packing={data.packing}.")
    print(
        f"An epoch is {steps:,.1f} steps of {config.training.batch_size} rows;"
        f" training.steps={config.training.steps} is {config.training.steps / steps:.2f} epochs."
    )
    if train.floor_nats is not None:
        print("The floor is the exact surprise of the text in nats a prediction.")


def show_labels(dataset) -> None:
    """Print how often each label occurs in each split."""
    from txf.data.display import short, table, visible
    from txf.data.overlap import count_labels

    counts = {
        name: count_labels(split, len(dataset.labels)) for name, split in dataset.splits.items()
    }
    rows = [("label", *counts)]
    for number, label in enumerate(dataset.labels[:LABELS]):
        cells = [
            f"{count[number]:,} ({count[number] / max(count.sum(), 1):.1%})"
            for count in counts.values()
        ]
        rows.append((short(visible(label)), *cells))
    print("", *table(rows), sep="\n")
    if len(dataset.labels) > LABELS:
        print(f"... {len(dataset.labels) - LABELS} more labels")


def show_vocabulary(dataset) -> None:
    """Print the tokens at either end of the vocabulary."""
    from txf.data.display import token_text, wrap

    size, tokenizer = dataset.vocab_size, dataset.tokenizer
    print(f"\n{tokenizer.kind} vocabulary of {size:,} tokens (id and token):")
    head, tail = range(min(ENDS, size)), range(max(ENDS, size - ENDS), size)
    for ids in (head, tail):
        words = [f"{i} {token_text(tokenizer, i).replace(' ', '␣')}" for i in ids]
        if ids is tail and tail.start > head.stop:
            words.insert(0, "...")
        print(*(f"  {line}" for line in wrap(words, COLUMNS - 2)), sep="\n")


def show_batches(config, dataset) -> None:
    """Print the first rows of the first training batches."""
    from txf.data.batches import epoch_rows
    from txf.data.display import LEGEND, show_row, wrap

    split = dataset.splits["train"]
    size = config.training.batch_size
    print("\nThe first training batches:", *wrap(LEGEND.split("   "), COLUMNS), sep="\n")
    for step in range(BATCHES):
        rows, draws = epoch_rows(split.num_rows, config.data.seed, step, size)
        batch = split.take(split.arrays, rows, draws)
        asked, cells = int((batch["weights"] > 0).sum()), batch["inputs"].size
        padding = int((batch["segments"] == 0).sum()) if "segments" in batch else 0
        print(
            f"\nbatch {step}: {size} rows of {batch['inputs'].shape[1]} tokens,"
            f" {asked} predictions, {padding / cells:.1%} padding"
        )
        for place in range(min(_ROWS.value, size)):
            print(f" row {rows[place]}")
            for line in show_row(dataset, batch, place, COLUMNS - 2):
                print(f"  {line}".rstrip())


def show_overlap(contents) -> None:
    """Print what splits share, and what a split has twice."""
    from txf.data.display import table
    from txf.data.overlap import LIMIT, WORDS, repeated, shared

    rows = [("overlap", "documents", "", f"{WORDS}-word sequences", "")]
    names = list(contents)
    for later in range(1, len(names)):
        for earlier in range(later):
            a, b = contents[names[later]], contents[names[earlier]]
            documents, sequences = shared(a, b)
            rows.append(
                (
                    f"{names[later]} in {names[earlier]}",
                    f"{documents:,} of {a.documents.size:,}",
                    f"{documents / max(a.documents.size, 1):.1%}",
                    f"{sequences:,} of {a.sequences.size:,}",
                    f"{sequences / max(a.sequences.size, 1):.1%}",
                )
            )
    for name, content in contents.items():
        count, total = repeated(content), content.documents.size
        rows.append(
            (f"{name} repeats", f"{count:,} of {total:,}", f"{count / max(total, 1):.1%}", "", "")
        )
    print("", *table(rows), sep="\n")
    if cut := [name for name, content in contents.items() if not content.whole]:
        print(f"Of {' and '.join(cut)} the first {LIMIT:,} tokens were compared.")


if __name__ == "__main__":
    common.run(main)
