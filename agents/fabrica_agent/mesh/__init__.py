"""Work that PEs share: what the visible layout lets them send to each other, and which data each of them lacks."""
