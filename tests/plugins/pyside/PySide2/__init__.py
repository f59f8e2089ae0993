"""Stands in for Qt's bindings, of which perf's export-to-sqlite.py uses the SQL module alone."""
