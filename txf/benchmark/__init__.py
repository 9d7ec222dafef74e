"""How fast txf is, measured beside other ways to do the same."""
