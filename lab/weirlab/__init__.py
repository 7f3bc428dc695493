"""Network namespaces, veth pairs and switches for the wire tests and the namespace lab. Needs nothing but Python."""
