"""Networks over one flat parameter vector. NumPy only."""
