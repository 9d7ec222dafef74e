"""txf: re-invent the transformer one idea at a time, and measure what each idea buys."""

__version__ = "0.1.0"
