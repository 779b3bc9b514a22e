"""Rankings whose items lie in several chunks."""
