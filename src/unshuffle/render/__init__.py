"""Plans for people and programs: text, JSON, Graphviz and HTML, all drawn from one tree of nodes."""
