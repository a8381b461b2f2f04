"""The only package that touches the engine (LanceDB and Lance)."""
