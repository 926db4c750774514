"""Drawing plans as text, JSON, Graphviz and HTML. Every format draws the same tree of `DisplayNode`s."""
