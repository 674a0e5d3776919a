"""The words of hangdoc as frozen dataclasses. Standard library only and Python 3.8; see docs/glossary.md."""
