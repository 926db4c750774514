"""Estimates of rows, bytes and distinct values, and what plans cost."""
