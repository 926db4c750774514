"""Explaining a plan: how it is drawn (`render`), and why it has its exchanges and sorts (`why`)."""
