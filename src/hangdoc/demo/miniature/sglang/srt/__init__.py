"""The runtime of the miniature."""
