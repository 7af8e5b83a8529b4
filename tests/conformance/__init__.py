"""What every solver promises as a citizen of JAX and NumPy: one file a property, over all rows."""
