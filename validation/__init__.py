"""How far the simulator's cycles agree with published ones: `python -m validation`. See docs/cycle-model.md."""
