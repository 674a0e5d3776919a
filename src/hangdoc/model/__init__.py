"""The words of hangdoc as frozen dataclasses. Standard library only and Python 3.8; see docs/glossary.md.

Their annotations are not postponed: msgspec evaluates them, and 500 strings to compile are a fiftieth of watching a start.
"""
