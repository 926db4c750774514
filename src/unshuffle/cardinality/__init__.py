"""Estimates of rows, bytes and distinct values."""
