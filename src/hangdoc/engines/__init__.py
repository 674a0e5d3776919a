"""What a vLLM or SGLang launch looks like, as data, and the pure code that reads it. See docs/engines.md."""
