"""Drop-in `cslc` and `cs_python`, and the host API behind `cerebras.sdk`, served by the project's own simulator."""
