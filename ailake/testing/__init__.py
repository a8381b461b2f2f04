"""Suites that every implementation of a protocol of ours is to pass; run them on yours."""
