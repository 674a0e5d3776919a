"""Collectives of the miniature, over TCP on the loopback device."""
