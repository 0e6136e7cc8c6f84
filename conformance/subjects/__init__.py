"""Adapters for public libraries, one a file."""
