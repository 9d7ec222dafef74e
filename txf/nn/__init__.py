"""What a model is: pure functions of arrays, and the modules that hold their parameters."""
