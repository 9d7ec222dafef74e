"""What a model reads: corpora, probes, tokenizers and batches."""
