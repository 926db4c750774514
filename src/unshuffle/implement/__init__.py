"""Implementation rules: the physical operators that can run each logical one."""
