"""hangdoc: is my vLLM or SGLang launch slow or stuck, where, because of which rank, and what do I do?"""

__version__ = "0.1.0"
