"""Small TFDS data sets for tests, and a network that can be taken away."""

import tensorflow_datasets as tfds

WORDS = ("red", "blue", "green", "grey", "pink", "gold", "black")


def story(split, number):
    return f"{split} story {number}:\n {WORDS[number % 7]} héns, {number * 7919 % 101} of them. "


class Hens(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Stories with a title each. The options say what it has."""

    VERSION = tfds.core.Version("1.0.0")

    def __init__(self, splits=None, texts=("text",), **options):
        self.sizes = splits or {"train": 41, "validation": 13, "test": 11}
        self.texts = texts
        super().__init__(file_format="array_record", **options)

    def _info(self):
        texts = {name: tfds.features.Text() for name in self.texts}
        label = {"label": tfds.features.ClassLabel(names=["wild", "tame"])}
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(texts | label),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(split, n) for split, n in self.sizes.items()}

    def _generate_examples(self, split, count):
        for number in range(count):
            example = {name: f"{name} of {number}" for name in self.texts[1:]}
            yield number, example | {self.texts[0]: self.text(split, number), "label": number % 2}

    def text(self, split, number):
        return story(split, number)


def prepare(folder, shards=1, kind=Hens, **options):
    builder = kind(data_dir=folder, **options)
    settings = tfds.download.DownloadConfig(num_shards=shards)
    builder.download_and_prepare(download_config=settings)
    return builder
