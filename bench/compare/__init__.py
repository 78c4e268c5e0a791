"""Compares the library with its peers in one process: see bench/README.md."""
