"""Language models behind one protocol: providers over HTTP, a recording, or a person through files."""
