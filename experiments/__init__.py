"""The command lines of txf, each a short main around the library."""
