"""Known causes: what they need, whether it holds, and how to say so. Pure but for `load`, which reads the catalogue."""
